//! The two ends of a bare path.

use core::net::IpAddr;

use anyhow::{Result, bail};
use backend_afxdp::Bare;
use backend_udp::{Config, Endpoint, Local, UdpLink};
use roce_engine::link::{Flow, FrameNote, Link};
use roce_wire::{FrameSpec, HeaderTemplate, Mac};

use crate::exit::environment;
use crate::lab;

/// Packets of one look.
const BUDGET: usize = 256;

/// An end of a bare path.
pub(super) trait Path: Send {
    /// Makes a packet ready; returns false if there is no room.
    fn send(&mut self, len: usize) -> bool;
    /// Gives what is ready to the kernel.
    fn flush(&mut self) -> Result<()>;
    /// Takes what has arrived; returns how many packets.
    fn receive(&mut self) -> Result<usize>;
}

/// Opens both ends of a backend's path.
pub(super) fn pair(backend: &str) -> Result<(Box<dyn Path>, Box<dyn Path>)> {
    match backend {
        "udp" => {
            let near = Sockets::open(Endpoint::Client)?;
            Ok((Box::new(near), Box::new(Sockets::open(Endpoint::Server)?)))
        }
        "afxdp" => frames(),
        _ => bail!("{backend} has no bare path"),
    }
}

/// UDP sockets on loopback, batches and all.
struct Sockets {
    link: UdpLink,
    flow: Flow,
    /// The queue pair that packets say they are for: the other end's parity.
    qpn: u8,
}

impl Sockets {
    fn open(role: Endpoint) -> Result<Self> {
        let local = IpAddr::from([127, 0, 0, 1]);
        let mut link = UdpLink::open(Config::new(Local::Address(local), role))
            .map_err(|error| environment(error.to_string()))?;
        let (wanted, qpn) = match role {
            Endpoint::Client => (0xc100, 2),
            Endpoint::Server => (0xc200, 3),
        };
        let flow = Flow {
            local,
            remote: local,
            source_port: link.source_port(local, wanted),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
        };
        Ok(Self { link, flow, qpn })
    }
}

impl Path for Sockets {
    fn send(&mut self, len: usize) -> bool {
        let qpn = self.qpn;
        let note = FrameNote::default();
        self.link
            .send(&self.flow, len, note, |slot| slot.bytes[7] = qpn)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.link.flush()?)
    }

    fn receive(&mut self) -> Result<usize> {
        Ok(self.link.receive(BUDGET, |_, _| {})?)
    }
}

/// An AF_XDP socket of its own in a host of the lab.
struct Frames {
    bare: Bare,
    template: HeaderTemplate,
}

/// Opens both ends in a thread of their own, which leaves the caller where it is.
fn frames() -> Result<(Box<dyn Path>, Box<dyn Path>)> {
    let opened = std::thread::spawn(|| {
        let [near, far] = lab::bare_ends()?;
        let addresses = ["192.168.77.1", "192.168.77.2"];
        let macs = [near.mac(), far.mac()];
        let near = Frames::new(near, macs, addresses)?;
        let [there, here] = addresses;
        let far = Frames::new(far, [macs[1], macs[0]], [here, there])?;
        anyhow::Ok((near, far))
    });
    let Ok(opened) = opened.join() else {
        bail!("the thread that opens the bare path panicked");
    };
    let (near, far) = opened?;
    Ok((Box::new(near), Box::new(far)))
}

impl Frames {
    fn new(bare: Bare, [src_mac, dst_mac]: [Mac; 2], [src, dst]: [&str; 2]) -> Result<Self> {
        let spec = FrameSpec::between(src.parse()?, dst.parse()?, 0xc100).map(|spec| FrameSpec {
            ethernet: Some((src_mac, dst_mac)),
            ..spec
        });
        let Some(spec) = spec else {
            bail!("{src} and {dst} are of two families");
        };
        let template = HeaderTemplate::new(&spec);
        Ok(Self { bare, template })
    }
}

impl Path for Frames {
    fn send(&mut self, len: usize) -> bool {
        let template = &self.template;
        self.bare
            .send(template.len() + len, |frame| template.stamp(frame, len, 0))
    }

    fn flush(&mut self) -> Result<()> {
        self.bare.flush()?;
        Ok(())
    }

    fn receive(&mut self) -> Result<usize> {
        Ok(self.bare.receive(BUDGET, |_| {})?)
    }
}
