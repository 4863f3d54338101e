//! Queue pairs of every service beside the RC connections of a run, and the objects that they use.
//!
//! | object | what happens to it |
//! |---|---|
//! | UC, UD, RC queue pairs | send to each other on one pair of devices; some are drained, some destroyed |
//! | SRQ | queue pairs of all services take from it; its limit is armed again and again |
//! | memory window | rounds of bind, use and invalidation by either side, and requests that it forbids |
//! | address handle | made and destroyed between datagrams |
//! | CQ | polled late, after notifications only, and resized with completions in it |

mod demolition;
mod plan;
mod pool;
mod setup;
mod stream;
mod windows;

use roce_engine::sim::{Rng, World};
use roce_engine::verbs::{
    AsyncEvent, Backend, Completion, Payload, QKey, QpAttr, QpState, Qpn, SendOp, SendWr, Service,
    Sge, Status, WcOpcode,
};
use roce_wire::grh::Network;

use crate::oracle::Verdict;
use crate::rc::address;
use crate::workload::pauses::Pauses;
use crate::workload::post::RECEIVE;
use crate::workload::{Mode, Plan, Report};

use plan::AREA;
pub use plan::{Kind as MessageKind, LinkPlan, MixedPlan, Op as Message, PoolPlan};
use pool::{Pool, pool_of};
use setup::{Side, build_side, open};
use stream::Stream;
use windows::{WINDOW, Windows};

/// The links of a run while they run.
#[derive(Debug)]
pub(super) struct Mixed<'a> {
    plan: &'a Plan,
    sides: [Side; 2],
    /// By side and link: what the queue pair there sends.
    streams: [Vec<Stream>; 2],
    windows: Vec<Windows>,
    /// The peer of a failed queue pair is told, as an application would, or finds out by itself.
    tell_peer: bool,
    /// The last message of each unreliable program waits for a healed network.
    held: bool,
    destroyed: usize,
    limits: usize,
}

impl<'a> Mixed<'a> {
    pub(super) fn new(
        world: &mut World,
        plan: &'a Plan,
        pauses: &mut Pauses,
        rng: &mut Rng,
    ) -> Self {
        let sides = [0, 1].map(|side| build_side(world, plan, side, rng));
        for side in 0..2 {
            for (port, peer) in sides[side].ports.iter().zip(&sides[1 - side].ports) {
                open(world, plan, port, port.qp, peer.qpn);
                pauses.add(side, port.qp, port.qpn, rng.below(3) as u32);
            }
        }
        let links = &plan.mixed.links;
        let streams = [0, 1].map(|side: usize| {
            let stream = |(number, link): (usize, &LinkPlan)| {
                let name = format!("{:?} link {number} from side {side}", link.service);
                let ops = link.programs[side].clone();
                let source = &sides[side].source.region;
                let repeats = plan.mixed.repeats;
                Stream::new(name, link.service, ops, links.len(), source, repeats)
            };
            links.iter().enumerate().map(stream).collect()
        });
        let mut windows = Vec::new();
        for (number, link) in links.iter().enumerate() {
            if let Some(rounds) = link.windows {
                let made = Windows::new(world, &sides, (number, rounds), link.service, rng);
                windows.push(made);
            }
        }
        Self {
            plan,
            sides,
            streams,
            windows,
            tell_peer: rng.chance(0.5),
            held: plan.mode == Mode::Liveness,
            destroyed: 0,
            limits: 0,
        }
    }

    /// Returns whether there is anything.
    pub(super) const fn is_empty(&self) -> bool {
        self.plan.mixed.links.is_empty()
    }

    /// Polls on both sides.
    pub(super) fn poll_all(&mut self, world: &mut World, rng: &mut Rng, hurry: bool) -> Verdict {
        (0..2).try_for_each(|side| self.poll(world, side, rng, hurry))
    }

    /// Posts on both sides. All events so far were taken, so that the next one is known to be new.
    pub(super) fn turn(
        &mut self,
        world: &mut World,
        pauses: &mut Pauses,
        rng: &mut Rng,
        hurry: bool,
    ) -> Verdict {
        if self.is_empty() {
            return Ok(());
        }
        for side in 0..2 {
            self.post_receives(world, side, rng, hurry)?;
            for link in 0..self.plan.mixed.links.len() {
                if hurry || rng.chance(0.7) {
                    self.post(world, side, link, rng)?;
                }
            }
        }
        for windows in &mut self.windows {
            windows.turn(world, &self.sides, rng)?;
        }
        if !hurry {
            self.demolish(world, pauses, rng)?;
        }
        Ok(())
    }

    /// Returns a number that grows with everything that is posted.
    pub(super) fn activity(&self) -> u64 {
        let sent: usize = self
            .streams
            .iter()
            .flatten()
            .map(|stream| stream.posted)
            .sum();
        let windows: u32 = self.windows.iter().map(Windows::posted).sum();
        let pools = self.sides.iter().flat_map(|side| &side.pools);
        sent as u64 + u64::from(windows) + pools.map(Pool::posted).sum::<u64>()
    }

    fn poll(&mut self, world: &mut World, side: usize, rng: &mut Rng, hurry: bool) -> Verdict {
        for cq in 0..self.sides[side].cqs.len() {
            if hurry || rng.chance(0.9) {
                let completions = self.sides[side].cqs[cq].poll(world.device(side), rng, hurry)?;
                for wc in completions {
                    self.on_completion(world, side, &wc)?;
                }
            }
        }
        Ok(())
    }

    fn on_completion(&mut self, world: &mut World, side: usize, wc: &Completion) -> Verdict {
        let mut ports = self.sides[side].ports.iter();
        let found = ports.position(|port| port.qpn == wc.qpn && port.gone.is_none());
        let Some(link) = found else {
            return Err(format!("side {side}: {wc:?} is of no queue pair"));
        };
        if wc.wr_id & RECEIVE != 0 {
            return self.on_received(world, side, link, wc);
        }
        let reliable = self.plan.mixed.links[link].service == Service::Rc;
        let closed = self.sides[side].ports[link].closed;
        let expected = match wc.status {
            Status::RetryExcErr => self.plan.mode == Mode::Safety,
            Status::WrFlushErr => closed,
            _ => false,
        };
        let may_fail = reliable && expected;
        if wc.wr_id & WINDOW != 0 {
            let mut windows = self.windows.iter_mut();
            let windows = windows.find(|windows| windows.link == link);
            let windows = windows.ok_or_else(|| format!("side {side}: {wc:?}: no window"))?;
            // The only NAK that says so may be lost: a responder in error doesn't repeat it.
            let unheard = wc.status == Status::RetryExcErr && windows.violated;
            windows.on_sent(side, wc, may_fail || unheard && !self.plan.is_calm())?;
        } else {
            self.streams[side][link].on_sent(wc.wr_id as u32 as usize, wc)?;
            if wc.status != Status::Success && !may_fail {
                return Err(format!("link {link}, side {side}: failed with {wc:?}"));
            }
        }
        if wc.status != Status::Success {
            self.on_failure(world, side, link)?;
        }
        Ok(())
    }

    fn on_failure(&mut self, world: &mut World, side: usize, link: usize) -> Verdict {
        self.sides[side].ports[link].closed = true;
        for windows in self
            .windows
            .iter_mut()
            .filter(|windows| windows.link == link)
        {
            windows.stop();
        }
        let peer = &mut self.sides[1 - side].ports[link];
        if self.tell_peer && !peer.closed && peer.gone.is_none() {
            peer.closed = true;
            let to_error = QpAttr {
                state: Some(QpState::Err),
                ..QpAttr::default()
            };
            let modified = world.device(1 - side).modify_qp(peer.qp, &to_error);
            modified.map_err(|error| format!("to the error state: {error}"))?;
        }
        Ok(())
    }

    fn on_received(
        &mut self,
        world: &mut World,
        side: usize,
        link: usize,
        wc: &Completion,
    ) -> Verdict {
        let here = &mut self.sides[side];
        let port = &mut here.ports[link];
        let name = format!("{:?} link {link} to side {side}", port.service);
        let pool = &mut here.pools[port.pool];
        let landed = pool.take(wc.wr_id)?;
        if pool_of(wc.wr_id) != port.pool || port.newest >= Some(landed.number) {
            return Err(format!(
                "{name}: {wc:?}: a receive that is older or another queue's"
            ));
        }
        port.newest = Some(landed.number);
        if wc.status != Status::Success {
            // One that is destroyed may have been in error before.
            let info = world.device(side).query_qp(port.qp);
            let in_error = info.is_ok_and(|info| info.state == QpState::Err) || port.closed;
            if wc.status != Status::WrFlushErr || !in_error {
                return Err(format!("{name}: {wc:?} without an error"));
            }
            port.closed = true;
            return pool.release(&landed, 0, false);
        }
        let used = match wc.opcode {
            WcOpcode::RecvWriteImm => 0,
            _ => wc.byte_len as usize,
        };
        // On UC a message that was cut off leaves its bytes in the receive of the next one.
        pool.release(&landed, used, port.service != Service::Uc)?;
        let bytes = &landed.bytes[..used];
        if let Some(windows) = self.windows.iter_mut().find(|w| w.link == link) {
            return windows.on_received(side, wc);
        }
        if port.service != Service::Ud {
            let target = &port.target.region;
            return self.streams[1 - side][link].on_arrival(link, wc, bytes, target);
        }
        let mut senders = self.sides[1 - side].ports.iter();
        let sender = senders.position(|port| port.qpn == wc.src_qpn);
        let (Some(sender), Some((area, data))) = (sender, bytes.split_first_chunk()) else {
            return Err(format!(
                "{name}: {wc:?} is from nobody, or has no network header"
            ));
        };
        self.check_area(side, sender, area)?;
        let target = &self.sides[side].ports[link].target.region;
        self.streams[1 - side][sender].on_arrival(link, wc, data, target)
    }

    /// Judges the network header that a datagram came with.
    fn check_area(&self, side: usize, sender: usize, area: &[u8; AREA]) -> Verdict {
        let vector = &self.sides[1 - side].ports[sender].vector;
        let network = Network::from_receive_area(area);
        let from = match network {
            Some(Network::V4(header)) => Some(header.src.into()),
            Some(Network::V6(header)) => Some(header.src.into()),
            _ => None,
        };
        // The path may mark congestion in the low two bits.
        let right = network.is_some_and(|network| {
            network.hop_limit() == vector.hop_limit
                && network.traffic_class() >> 2 == vector.traffic_class >> 2
        });
        if right && from == Some(address(self.plan.ipv6, 1 - side)) {
            return Ok(());
        }
        Err(format!(
            "side {side}: a datagram's area is {network:?}, not from {vector:?}"
        ))
    }

    fn post_receives(
        &mut self,
        world: &mut World,
        side: usize,
        rng: &mut Rng,
        hurry: bool,
    ) -> Verdict {
        let Side { pools, ports, .. } = &mut self.sides[side];
        for (number, pool) in pools.iter_mut().enumerate() {
            // A queue pair in error gives every receive back at once.
            let mut users = ports.iter().filter(|port| port.pool == number);
            if pool.srq().is_some() || users.all(|port| !port.closed) {
                pool.post(world, rng, hurry || self.plan.mixed.all_arrive)?;
            }
        }
        Ok(())
    }

    fn post(&mut self, world: &mut World, side: usize, link: usize, rng: &mut Rng) -> Verdict {
        let link_plan = &self.plan.mixed.links[link];
        let port = &mut self.sides[side].ports[link];
        let stream = &mut self.streams[side][link];
        let unreliable = link_plan.service != Service::Rc;
        let all = stream.ops.len() - usize::from(self.held && unreliable && !stream.ops.is_empty());
        let room = link_plan.sq_depth - (stream.posted - stream.completed);
        let room = room.min(all.saturating_sub(stream.posted));
        let count = room.min(rng.range(1..=6) as usize);
        if count == 0 || port.closed || port.gone.is_some() {
            return Ok(());
        }
        if port.service == Service::Ud
            && (port.ah.is_none() || stream.is_settled() && rng.chance(0.1))
        {
            let device = world.device(side);
            if let Some(ah) = port.ah {
                device.destroy_ah(ah).map_err(|error| error.to_string())?;
            }
            let made = device.create_ah(self.sides[side].pd, &port.vector);
            port.ah = Some(made.map_err(|error| error.to_string())?);
        }
        for _ in 0..count {
            let index = self.streams[side][link].posted;
            self.streams[side][link].posted += 1;
            self.post_one(world, side, link, index)?;
        }
        Ok(())
    }

    fn post_one(&self, world: &mut World, side: usize, link: usize, index: usize) -> Verdict {
        let stream = &self.streams[side][link];
        let op = &stream.ops[index];
        let source = &self.sides[side].source.mr;
        let sge = |offset: usize, len: usize| Sge {
            addr: source.addr + (op.source + offset) as u64,
            length: len as u32,
            lkey: source.lkey,
        };
        let cut = op.len / 3;
        let sges = [sge(0, cut), sge(cut, op.len - cut)];
        let payload = match op.inline {
            true => Payload::Inline(stream.data(op)),
            false => Payload::Sges(&sges),
        };
        let target = &self.sides[1 - side].ports[op.to];
        let (addr, rkey) = (
            target.target.mr.addr + op.slot as u64,
            target.target.mr.rkey,
        );
        let port = &self.sides[side].ports[link];
        let operation = match (port.service, op.kind) {
            (Service::Ud, _) => SendOp::Datagram {
                ah: port.ah.ok_or("no address handle")?,
                qpn: target.qpn,
                qkey: self.wire_key(side, op),
                imm: op.imm(),
            },
            (_, MessageKind::Send) => SendOp::Send,
            (_, MessageKind::SendImm(imm)) => SendOp::SendImm(imm),
            (_, MessageKind::Write) => SendOp::Write { addr, rkey },
            (_, MessageKind::WriteImm(imm)) => SendOp::WriteImm { addr, rkey, imm },
        };
        let request = SendWr {
            wr_id: (link as u64) << 32 | index as u64,
            op: operation,
            payload,
            flags: op.flags,
        };
        let posted = world.device(side).post_send(port.qp, &[request]);
        posted.map_err(|error| format!("link {link}, side {side}, request {index}: {error}"))
    }

    /// Returns the key that a datagram is posted with: its receiver's, or one that never matches.
    fn wire_key(&self, side: usize, op: &Message) -> QKey {
        let right = self.plan.mixed.links[op.to].qkeys[1 - side];
        if op.good_key {
            right
        } else {
            QKey((right.0 & 0x7fff_ffff) ^ 1)
        }
    }

    /// Judges an asynchronous event; false if it is of none of its objects.
    pub(super) fn on_event(&mut self, side: usize, event: &AsyncEvent) -> Result<bool, String> {
        let here = &mut self.sides[side];
        let link = |qpn: Qpn| here.ports.iter().position(|port| port.qpn == qpn);
        match event {
            AsyncEvent::SrqLimit(srq) => {
                let mut pools = here.pools.iter_mut();
                let pool = pools.find(|pool| pool.srq() == Some(*srq));
                pool.ok_or("an event of no SRQ")?.on_limit()?;
                self.limits += 1;
                return Ok(true);
            }
            AsyncEvent::LastWqeReached(qpn) => {
                let port = link(*qpn).map(|link| &here.ports[link]);
                return Ok(port.is_some_and(|port| port.init.srq.is_some()));
            }
            AsyncEvent::QpAccessError(qpn) => {
                let link = link(*qpn);
                let mut windows = self.windows.iter_mut();
                let windows = windows.find(|w| Some(w.link) == link && w.owner == side);
                let Some(windows) = windows.filter(|windows| windows.violated) else {
                    return Ok(false);
                };
                windows.stop();
                here.ports[windows.link].closed = true;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Returns the next unreliable program whose last message can be sent over a healed network, alone,
    /// and sends it.
    pub(super) fn next_last(
        &mut self,
        world: &mut World,
        done: &mut usize,
    ) -> Result<bool, String> {
        self.held = false;
        let links = self.plan.mixed.links.len();
        while *done < 2 * links {
            let (side, link) = (*done / links, *done % links);
            *done += 1;
            let stream = &mut self.streams[side][link];
            if stream.service() != Service::Rc && stream.posted < stream.ops.len() {
                let index = stream.posted;
                stream.posted += 1;
                self.ensure_handle(world, side, link)?;
                self.post_one(world, side, link, index)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn ensure_handle(&mut self, world: &mut World, side: usize, link: usize) -> Verdict {
        let port = &mut self.sides[side].ports[link];
        if port.service == Service::Ud && port.ah.is_none() {
            let made = world
                .device(side)
                .create_ah(self.sides[side].pd, &port.vector);
            port.ah = Some(made.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Judges the end of a run, in which nothing happens any more.
    pub(super) fn on_end(&self, world: &mut World) -> Verdict {
        let live = self.plan.mode == Mode::Liveness;
        for side in 0..2 {
            for (link, stream) in self.streams[side].iter().enumerate() {
                let port = &self.sides[side].ports[link];
                let over = port.closed || port.gone.is_some();
                let complete = stream.posted == stream.ops.len() && stream.is_settled();
                if !over && !complete {
                    return Err(format!("side {side}, link {link}: not all has completed"));
                }
                let target = &self.sides[1 - side].ports[link];
                let all = self.plan.mixed.all_arrive || live && stream.service() == Service::Rc;
                let mtu = self.plan.mtu.bytes();
                stream.on_end(&target.target.region, &target.before, mtu, all)?;
                if live && !stream.has_last() {
                    return Err(format!(
                        "side {side}, link {link}: the last message is lost"
                    ));
                }
            }
            self.check_ports(world, side)?;
            self.check_pools(side)?;
        }
        for windows in &self.windows {
            windows.check()?;
            let gone = (0..2).any(|side| self.sides[side].ports[windows.link].gone.is_some());
            if !windows.is_finished() && !gone {
                return Err(format!("never ends: {windows}"));
            }
        }
        Ok(())
    }

    /// A queue pair in error has nothing left; one that is gone changes nothing any more.
    fn check_ports(&self, world: &mut World, side: usize) -> Verdict {
        for (link, port) in self.sides[side].ports.iter().enumerate() {
            if let Some(before) = &port.gone {
                if *before != self.remains(side, link) {
                    return Err(format!("side {side}, link {link}: written after its end"));
                }
                continue;
            }
            let info = world.device(side).query_qp(port.qp);
            let state = info.map_err(|error| error.to_string())?.state;
            let pool = &self.sides[side].pools[port.pool];
            let left = pool.srq().is_none() && pool.has_posted();
            if state == QpState::Err && (left || !self.streams[side][link].is_settled()) {
                return Err(format!("side {side}, link {link}: not all was flushed"));
            }
        }
        Ok(())
    }

    fn check_pools(&self, side: usize) -> Verdict {
        for (number, pool) in self.sides[side].pools.iter().enumerate() {
            let mut users = self.sides[side]
                .ports
                .iter()
                .filter(|port| port.pool == number);
            // Datagrams are whole: a receive without a message has none of its bytes.
            pool.on_end(users.all(|port| port.service == Service::Ud))?;
        }
        Ok(())
    }

    /// Adds what was done to a report.
    pub(super) fn report(&self, report: &mut Report) {
        if self.is_empty() {
            return;
        }
        report.mixed = 1;
        for stream in self.streams.iter().flatten() {
            let (sent, arrived) = (stream.done(), stream.messages());
            let [out, into] = match stream.service() {
                Service::Rc => &mut report.more_rc,
                Service::Uc => &mut report.uc,
                Service::Ud => &mut report.ud,
            };
            *out += sent;
            *into += arrived;
        }
        report.binds = self.windows.iter().map(|windows| windows.binds).sum();
        report.limits = self.limits;
        report.destroyed = self.destroyed;
    }
}
