//! The outer headers of each flow: where its packets go next, and what changes about that.
//!
//! A next hop is looked up when the first packet needs it, and followed from then on: the kernel
//! announces what it learns. While it asks for a neighbour, packets of that flow wait (`send` finds
//! no room), though not for ever; to a neighbour that does not answer they are dropped and counted,
//! so that the engine's retries come to their end.

mod hop;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::io;
use std::time::Instant;

use roce_engine::link::Flow;
use roce_wire::{AddressPair, FrameSpec, HeaderTemplate, Mac};

use crate::events::Events;
use crate::netdev::Netdev;
use crate::netlink::{Change, Netlink};
use hop::{Hop, Place};

/// Flows that are kept ready. More than that are made again when they come up.
const FLOWS: usize = 4096;

/// How long packets wait for a neighbour. After that they are lost, and a retry is the engine's.
const PATIENCE: Duration = Duration::from_millis(250);

/// How often the kernel is told that a neighbour is in use that it is no longer sure of.
const REMINDER: Duration = Duration::from_secs(1);

/// A flow with its headers.
#[derive(Debug)]
struct Path {
    flow: Flow,
    hop: usize,
    /// The headers, unless the next hop has changed since.
    template: Option<HeaderTemplate>,
    /// The longest IP packet that the route carries.
    limit: usize,
}

/// What there is for a packet.
pub(crate) enum Found<'a> {
    /// The headers of its frame, and the longest IP packet that the route carries.
    Ready(&'a HeaderTemplate, usize),
    /// The neighbour is being asked for.
    Waiting,
    /// There is no way to the destination.
    Nowhere,
}

/// The paths of a link.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) netdev: Netdev,
    ask: Netlink,
    monitor: Netlink,
    hops: Vec<Hop>,
    by_peer: HashMap<(IpAddr, IpAddr), usize>,
    paths: Vec<Path>,
    by_flow: HashMap<Flow, usize>,
    /// The path of the last packet.
    last: usize,
    reminded: Instant,
    /// The interface no longer exists.
    pub(crate) gone: bool,
    /// What this link has learnt of the network, for the counters.
    pub(crate) changes: u64,
}

impl Routes {
    pub(crate) fn new(netdev: Netdev, ask: Netlink) -> io::Result<Self> {
        Ok(Self {
            netdev,
            ask,
            monitor: Netlink::monitor()?,
            hops: Vec::new(),
            by_peer: HashMap::new(),
            paths: Vec::new(),
            by_flow: HashMap::new(),
            last: 0,
            reminded: Instant::now(),
            gone: false,
            changes: 0,
        })
    }

    /// Returns the socket that becomes readable when something has changed.
    pub(crate) const fn monitor(&self) -> &Netlink {
        &self.monitor
    }

    /// Returns whether packets wait for a neighbour.
    pub(crate) fn is_waiting(&self) -> bool {
        self.hops.iter().any(|hop| hop.is_waiting())
    }

    /// Returns the headers for a packet.
    #[inline]
    pub(crate) fn find(&mut self, flow: &Flow, events: &mut Events) -> Found<'_> {
        let known = self
            .paths
            .get(self.last)
            .is_some_and(|one| one.flow == *flow);
        if !known {
            self.last = match self.by_flow.get(flow) {
                Some(index) => *index,
                None => self.add(flow),
            };
        }
        if self.paths[self.last].template.is_none() {
            let index = self.last;
            if let Err(other) = self.prepare(index, events) {
                return other;
            }
        }
        let path = &self.paths[self.last];
        match &path.template {
            Some(template) => Found::Ready(template, path.limit),
            None => Found::Nowhere,
        }
    }

    fn add(&mut self, flow: &Flow) -> usize {
        if self.paths.len() >= FLOWS {
            self.paths.clear();
            self.by_flow.clear();
            self.hops.clear();
            self.by_peer.clear();
        }
        let peer = (flow.local, flow.remote);
        let hop = *self.by_peer.entry(peer).or_insert_with(|| {
            self.hops.push(Hop::new(flow.local, flow.remote));
            self.hops.len() - 1
        });
        self.paths.push(Path {
            flow: *flow,
            hop,
            template: None,
            limit: usize::MAX,
        });
        self.by_flow.insert(*flow, self.paths.len() - 1);
        self.paths.len() - 1
    }

    /// Makes the headers of a path, or says why they can't be made now.
    fn prepare(&mut self, index: usize, events: &mut Events) -> Result<(), Found<'static>> {
        let path = &mut self.paths[index];
        let hop = &mut self.hops[path.hop];
        if hop.needs_look_up() {
            hop.look_up(&self.netdev, &mut self.ask);
        }
        let (mac, vlan) = match hop.place() {
            Place::Known { mac, vlan } => (*mac, *vlan),
            Place::Asked { since } if since.elapsed() < PATIENCE => return Err(Found::Waiting),
            Place::Asked { .. } | Place::Silent => {
                let (remote, next) = (hop.remote, hop.next_ip());
                let name = &self.netdev.name;
                events.unreachable(remote, libc::EHOSTUNREACH, || {
                    let who = match next {
                        Some(next) if next != remote => format!("its gateway {next}"),
                        _ => remote.to_string(),
                    };
                    format!("{who} does not answer on {name}: is it up, and on this network?")
                });
                return Err(Found::Nowhere);
            }
            Place::Nowhere(reason) => {
                let reason = reason.clone();
                let remote = hop.remote;
                events.unreachable(remote, libc::ENETUNREACH, || reason);
                return Err(Found::Nowhere);
            }
        };
        path.limit = hop.limit;
        path.template = template(&path.flow, self.netdev.mac, mac, vlan);
        Ok(())
    }

    /// Takes what the kernel has announced, and reminds it of neighbours in use. Returns whether
    /// the addresses have changed.
    pub(crate) fn follow(&mut self) -> bool {
        let mut changes = Vec::new();
        let whole = self.monitor.changes(|change| changes.push(change));
        let mut addresses = !whole;
        if !whole {
            self.forget_all();
        }
        for change in changes {
            self.changes += 1;
            addresses |= self.on_change(change);
        }
        if addresses && self.netdev.reload(&mut self.ask).is_err() {
            // What was known stays: nothing better can be had now.
            addresses = false;
        }
        if self.reminded.elapsed() >= REMINDER {
            self.reminded = Instant::now();
            for hop in &mut self.hops {
                hop.remind(&mut self.ask);
            }
        }
        addresses
    }

    fn on_change(&mut self, change: Change) -> bool {
        match change {
            Change::Interface(one) => {
                if one.index == self.netdev.index && self.netdev.follow(&one) {
                    self.forget_all();
                }
                self.netdev.concerns(&one) && one.index != self.netdev.index
            }
            Change::InterfaceGone(index) => {
                self.gone |= index == self.netdev.index;
                false
            }
            Change::Addresses => {
                self.forget_all();
                true
            }
            Change::Routes => {
                self.forget_all();
                false
            }
            Change::Neighbour(one) => {
                self.on_neighbour(one.index, one.ip, |hop| hop.learn(one.reach));
                false
            }
            Change::NeighbourGone { index, ip } => {
                self.on_neighbour(index, ip, |hop| {
                    hop.forget();
                    true
                });
                false
            }
        }
    }

    /// Changes the hops that are this neighbour, and has their headers made again where `change`
    /// says so.
    fn on_neighbour(&mut self, index: u32, ip: IpAddr, change: impl Fn(&mut Hop) -> bool) {
        for (number, hop) in self.hops.iter_mut().enumerate() {
            if hop.is_neighbour(index, ip) && change(hop) {
                for path in self.paths.iter_mut().filter(|path| path.hop == number) {
                    path.template = None;
                }
            }
        }
    }

    /// Has everything looked up again at the next packet.
    fn forget_all(&mut self) {
        self.hops.iter_mut().for_each(Hop::forget);
        for path in &mut self.paths {
            path.template = None;
        }
    }
}

fn template(flow: &Flow, own: Mac, next: Mac, vlan: Option<u16>) -> Option<HeaderTemplate> {
    Some(HeaderTemplate::new(&FrameSpec {
        ethernet: Some((own, next)),
        vlan_tci: vlan,
        addresses: AddressPair::new(flow.local, flow.remote)?,
        src_port: flow.source_port,
        traffic_class: flow.traffic_class,
        hop_limit: flow.hop_limit,
        flow_label: flow.flow_label,
    }))
}
