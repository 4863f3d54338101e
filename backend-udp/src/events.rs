//! What the user of a link should be told, bounded and without repetitions.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use roce_engine::link::LinkEvent;

use crate::config::ROCE_PORT;
use crate::sys::ErrorReport;

/// Events that wait to be read. More than that are lost: they say the same again.
const CAPACITY: usize = 32;

/// The same peer's troubles are reported again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// The events of a link.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<LinkEvent>,
    /// Who was reported unreachable, with which error and when: a short memory.
    reported: VecDeque<(IpAddr, i32, Instant)>,
    /// Notices by text, for good.
    noticed: Vec<String>,
}

impl Events {
    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.queue.pop_front()
    }

    /// Tells something once.
    pub(crate) fn notice(&mut self, text: String) {
        if self.noticed.len() < CAPACITY && !self.noticed.contains(&text) {
            self.noticed.push(text.clone());
            self.push(LinkEvent::Notice(text));
        }
    }

    /// Tells that packets to `remote` don't arrive, at most once a second for an error.
    pub(crate) fn unreachable(
        &mut self,
        remote: IpAddr,
        errno: i32,
        reason: impl FnOnce() -> String,
    ) {
        let now = Instant::now();
        let same = |row: &&mut (IpAddr, i32, Instant)| (row.0, row.1) == (remote, errno);
        if let Some(row) = self.reported.iter_mut().find(same) {
            if now.duration_since(row.2) < AGAIN {
                return;
            }
            row.2 = now;
        } else {
            if self.reported.len() == CAPACITY {
                self.reported.pop_front();
            }
            self.reported.push_back((remote, errno, now));
        }
        let reason = reason();
        self.push(LinkEvent::Unreachable { remote, reason });
    }

    /// Tells that the other endpoint of an address shared with this one is not there.
    pub(crate) fn nobody_else(&mut self, address: IpAddr, port: u16) {
        self.unreachable(address, libc::ECONNREFUSED, || {
            format!(
                "nobody else listens on UDP {port} at {address}: is the other side started, or did \
                 it end?"
            )
        });
    }

    fn push(&mut self, event: LinkEvent) {
        if self.queue.len() < CAPACITY {
            self.queue.push_back(event);
        }
    }

    /// Tells what a socket's error queue said.
    pub(crate) fn report(&mut self, report: &ErrorReport) {
        let Some(to) = report.destination else {
            return;
        };
        self.unreachable(to.ip(), report.errno, || words(report, to.ip(), to.port()));
    }
}

fn words(report: &ErrorReport, to: IpAddr, port: u16) -> String {
    let by = match report.offender {
        Some(offender) if offender != to => format!(", says {offender}"),
        _ => String::new(),
    };
    match report.errno {
        libc::ECONNREFUSED => {
            let hint = if port == ROCE_PORT {
                "is the other side started, and does it use RoCEv2?"
            } else {
                "is the other side started?"
            };
            format!("nobody listens on UDP {port} at {to}{by}: {hint}")
        }
        libc::EMSGSIZE => format!(
            "the path to {to} carries IP packets of {} bytes at most{by}: use a smaller path MTU (-m)",
            report.info
        ),
        libc::EACCES | libc::EPERM => {
            format!("a firewall rejects packets to UDP {port} at {to}{by}")
        }
        errno => {
            let text = std::io::Error::from_raw_os_error(errno);
            format!("packets to {to} do not arrive{by}: {text}")
        }
    }
}

/// Says why the kernel refused to send to `to` in the first place.
pub(crate) fn refusal(errno: i32, to: IpAddr, len: usize) -> String {
    let text = std::io::Error::from_raw_os_error(errno);
    match errno {
        libc::EMSGSIZE => format!(
            "the path to {to} does not carry packets with {len} bytes of UDP payload: use a \
             smaller path MTU (-m)"
        ),
        libc::EPERM | libc::EACCES => format!(
            "this machine refuses to send to {to} ({text}): look at its firewall's output rules, \
             and at the container's seccomp profile"
        ),
        libc::ENETUNREACH | libc::EHOSTUNREACH => format!("no route to {to} ({text})"),
        _ => format!("the kernel does not send to {to}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(errno: i32, info: u32, offender: &str) -> String {
        let report = ErrorReport {
            destination: Some("10.7.0.2:4791".parse().unwrap()),
            errno,
            info,
            offender: offender.parse().ok(),
            ..ErrorReport::default()
        };
        let mut events = Events::default();
        events.report(&report);
        events.report(&report);
        let Some(LinkEvent::Unreachable { remote, reason }) = events.pop() else {
            panic!("no event")
        };
        assert_eq!(remote.to_string(), "10.7.0.2");
        assert_eq!(events.pop(), None, "the same is not said twice in a second");
        reason
    }

    #[test]
    fn reports_name_the_object_and_what_to_do() {
        let refused = report(libc::ECONNREFUSED, 0, "10.7.0.2");
        assert!(
            refused.starts_with("nobody listens on UDP 4791 at 10.7.0.2:"),
            "{refused}"
        );
        let long = report(libc::EMSGSIZE, 1500, "10.7.0.254");
        assert!(
            long.contains("1500 bytes at most, says 10.7.0.254"),
            "{long}"
        );
        let host = report(libc::EHOSTUNREACH, 0, "10.7.0.1");
        assert!(host.contains("do not arrive, says 10.7.0.1"), "{host}");
    }

    #[test]
    fn a_flood_of_events_is_bounded() {
        let mut events = Events::default();
        for index in 0..1000_u32 {
            events.unreachable(IpAddr::from(index.to_be_bytes()), 1, String::new);
            events.notice(format!("number {index}"));
        }
        assert_eq!(events.queue.len(), CAPACITY);
        assert!(events.reported.len() <= CAPACITY && events.noticed.len() <= CAPACITY);
    }
}
