//! What `-d` names.

use core::fmt;

use anyhow::Result;

use crate::exit::environment;
use crate::spec::Spec;

/// A kind of device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// UDP sockets.
    Udp,
    /// An AF_XDP socket on a queue.
    Afxdp {
        /// The queue.
        queue: u32,
    },
    /// An RDMA device, whose name stands for the interface's.
    Verbs,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Afxdp { .. } => "afxdp",
            Self::Verbs => "verbs",
        })
    }
}

/// A device, as it was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Device {
    pub(super) kind: Kind,
    /// Its interface; that of the TCP connection unless it was named.
    pub(super) interface: Option<String>,
}

impl Device {
    /// Reads `-d`.
    ///
    /// # Errors
    ///
    /// There is no such kind of device, or not in this version.
    pub(super) fn parse(spec: &Spec) -> Result<Self> {
        let udp = |interface| Self {
            kind: Kind::Udp,
            interface,
        };
        let Some(text) = spec.device.as_deref() else {
            return Ok(udp(None));
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("udp", "") => Ok(udp(None)),
            ("udp", name) => Ok(udp(Some(name.to_owned()))),
            ("afxdp", rest) => Self::afxdp(text, rest),
            ("verbs", name) => Ok(Self {
                kind: Kind::Verbs,
                interface: Some(name.to_owned()).filter(|name| !name.is_empty()),
            }),
            ("sim", _) => Err(refused(text, "does not run tests in the simulator yet")),
            (name, "") => Ok(udp(Some(name.to_owned()))),
            _ => Err(environment(format!(
                "-d {text}: no such kind of device: use udp, udp:INTERFACE, afxdp:INTERFACE, verbs:DEVICE or an interface's name"
            ))),
        }
    }

    fn afxdp(text: &str, rest: &str) -> Result<Self> {
        let (name, queue) = rest.split_once(':').unwrap_or((rest, "0"));
        let queue = queue.parse().map_err(|_| {
            environment(format!(
                "-d {text}: {queue:?} is no queue's number: use afxdp:INTERFACE or afxdp:INTERFACE:QUEUE"
            ))
        })?;
        Ok(Self {
            kind: Kind::Afxdp { queue },
            interface: Some(name.to_owned()).filter(|name| !name.is_empty()),
        })
    }

    /// Returns how the AF_XDP link on an interface is opened.
    pub(super) fn xsk_config(&self, spec: &Spec, interface: &str) -> backend_afxdp::Config {
        let queue = match self.kind {
            Kind::Afxdp { queue } => queue,
            Kind::Udp | Kind::Verbs => 0,
        };
        backend_afxdp::Config {
            queue,
            mode: spec.xdp.mode,
            busy_poll: spec.xdp.busy_poll,
            replace_program: spec.xdp.replace,
            ..backend_afxdp::Config::new(interface)
        }
    }
}

fn refused(text: &str, why: &str) -> anyhow::Error {
    environment(format!(
        "-d {text}: this version {why}: use -d udp or -d udp:INTERFACE"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Test;

    fn parse(device: &str) -> Result<Device> {
        Device::parse(&Spec {
            device: Some(device.to_owned()),
            ..Spec::new(Test::ALL[0])
        })
    }

    #[test]
    fn interfaces_and_queues_are_read() {
        let afxdp = |queue, name: Option<&str>| Device {
            kind: Kind::Afxdp { queue },
            interface: name.map(str::to_owned),
        };
        assert_eq!(parse("afxdp").unwrap(), afxdp(0, None));
        assert_eq!(parse("afxdp:eth0").unwrap(), afxdp(0, Some("eth0")));
        assert_eq!(parse("afxdp:eth0:3").unwrap(), afxdp(3, Some("eth0")));
        for wrong in ["afxdp:eth0:x", "afxdp:eth0:", "dpdk:0"] {
            let error = parse(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert_eq!(parse("eth0").unwrap(), parse("udp:eth0").unwrap());
    }
}
