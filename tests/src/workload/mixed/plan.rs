//! What queue pairs of the other services do in a run, as data.

use core::time::Duration;

use roce_engine::sim::Rng;
use roce_engine::verbs::{Mtu, Psn, QKey, SendFlags, Service};

/// The links of a run besides its RC connections, and where their receives come from.
#[derive(Clone, Debug, Default)]
pub struct MixedPlan {
    /// Pairs of queue pairs: end 0 on side 0, end 1 on side 1.
    pub links: Vec<LinkPlan>,
    /// Receive queues of each side.
    pub pools: [Vec<PoolPlan>; 2],
    /// One CQ for everything of a side instead of one for each direction of each queue pair.
    pub one_cq: bool,
    /// Queue pairs are destroyed while their packets are on the way.
    pub demolish: bool,
    /// The network repeats or reorders packets.
    pub repeats: bool,
    /// Nothing is lost, and every receive is posted before the first message comes.
    pub all_arrive: bool,
    /// The acknowledgement timeout of its RC queue pairs.
    pub timeout: u8,
}

/// Two queue pairs that send to each other (UD: to any of the other side).
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Their service.
    pub service: Service,
    /// The receive queue of each end.
    pub pools: [usize; 2],
    /// What each end sends.
    pub programs: [Vec<Op>; 2],
    /// Bytes of each end's memory that the other writes.
    pub targets: [usize; 2],
    /// The first PSN that each end sends.
    pub first_psn: [Psn; 2],
    /// Send requests that may be outstanding.
    pub sq_depth: usize,
    /// The Q_Key of each end.
    pub qkeys: [QKey; 2],
    /// Rounds of binding, using and invalidating a memory window, instead of programs.
    pub windows: Option<u32>,
}

/// A receive queue: of one queue pair, or shared.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// Receives that may be posted.
    pub depth: usize,
    /// Whether it is an SRQ.
    pub shared: bool,
    /// Bytes of each receive.
    pub capacity: usize,
    /// How long it waits before more receives are posted.
    pub pause: Duration,
    /// Queue pairs that take from it.
    pub users: usize,
}

/// One message.
#[derive(Clone, Debug)]
pub struct Op {
    /// What it is; UD has SENDs only.
    pub kind: Kind,
    /// Its bytes.
    pub len: usize,
    /// Where they are in the sender's source region, which nobody writes.
    pub source: usize,
    /// Where a WRITE lands in the receiver's target region; no two overlap.
    pub slot: usize,
    /// The link at whose other end it arrives.
    pub to: usize,
    /// Its flags.
    pub flags: SendFlags,
    /// Whether its bytes are copied when it is posted.
    pub inline: bool,
    /// Whether a datagram carries its receiver's Q_Key.
    pub good_key: bool,
}

/// The kinds of messages that all connected services have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm([u8; 4]),
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImm([u8; 4]),
}

impl Op {
    /// Returns whether it consumes a receive.
    pub const fn consumes_receive(&self) -> bool {
        !matches!(self.kind, Kind::Write)
    }

    /// Returns whether it writes its receiver's target region.
    pub const fn writes(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::WriteImm(_))
    }

    /// Returns its immediate data.
    pub const fn imm(&self) -> Option<[u8; 4]> {
        match self.kind {
            Kind::SendImm(imm) | Kind::WriteImm(imm) => Some(imm),
            Kind::Send | Kind::Write => None,
        }
    }
}

/// Bytes of each side's source region.
pub(in crate::workload) const SOURCE: usize = 64 * 1024;

/// Bytes before a datagram's data.
pub(in crate::workload) const AREA: usize = 40;

/// Bytes that a message may have inline.
pub(in crate::workload) const INLINE: usize = 64;

impl MixedPlan {
    /// Makes random links. `calm`: the network only delays; `safety`: queue pairs may go away.
    pub fn random(rng: &mut Rng, mtu: Mtu, calm: bool, safety: bool, repeats: bool) -> Self {
        let mut plan = Self {
            one_cq: rng.chance(0.5),
            demolish: safety && rng.chance(0.4),
            repeats,
            all_arrive: calm,
            ..Self::default()
        };
        for side in 0..2 {
            if rng.chance(0.6) {
                plan.pools[side].push(PoolPlan::random(rng, true));
            }
        }
        for _ in 0..rng.range(1..=5) {
            let link = plan.link(rng, mtu);
            plan.links.push(link);
        }
        plan.aim_datagrams(rng);
        plan.size_pools(rng);
        plan
    }

    /// Returns packets and bytes that all programs send at most.
    pub fn load(&self, mtu: Mtu) -> (usize, usize) {
        let ops = || {
            self.links
                .iter()
                .flat_map(|link| link.programs.iter().flatten())
        };
        let packets: usize = ops().map(|op| op.len.div_ceil(mtu.bytes()).max(1)).sum();
        let windows = self.links.iter().filter_map(|link| link.windows);
        let packets = packets + windows.map(|rounds| rounds as usize * 40).sum::<usize>();
        let bytes: usize = ops().map(|op| op.len).sum();
        (packets, bytes + packets * (100 + WINDOWED))
    }

    fn link(&mut self, rng: &mut Rng, mtu: Mtu) -> LinkPlan {
        let service = rng.pick(&[
            Service::Uc,
            Service::Uc,
            Service::Ud,
            Service::Ud,
            Service::Rc,
        ]);
        let windows = (service != Service::Ud && rng.chance(0.4)).then(|| rng.range(1..=5) as u32);
        let sq_depth = rng.pick(&[1, 2, 8, 32]);
        let mut targets = [0; 2];
        let programs = [0, 1].map(|side: usize| {
            let active = windows.is_none() && (side == 0 || rng.chance(0.7));
            let count = if active { rng.range(2..=25) } else { 0 };
            program(rng, service, mtu, sq_depth, count, &mut targets[1 - side])
        });
        let pools = [0, 1].map(|side| {
            let pools = &mut self.pools[side];
            let shared = pools.first().is_some_and(|pool| pool.shared);
            if windows.is_none() && shared && rng.chance(0.6) {
                return 0;
            }
            pools.push(PoolPlan::random(rng, false));
            pools.len() - 1
        });
        LinkPlan {
            service,
            pools,
            programs,
            targets,
            first_psn: [(); 2].map(|()| Psn::new(rng.pick(&[0x00ff_fff0, 0x007f_fff0, 5]))),
            sq_depth,
            qkeys: qkeys(rng),
            windows,
        }
    }

    /// Gives each datagram a receiver: any UD queue pair of the other side.
    fn aim_datagrams(&mut self, rng: &mut Rng) {
        let links = 0..self.links.len();
        let open: Vec<usize> = links
            .filter(|link| self.links[*link].service == Service::Ud)
            .collect();
        let keys: Vec<_> = self.links.iter().map(|link| link.qkeys).collect();
        for (own, link) in self.links.iter_mut().enumerate() {
            let programs = link.programs.iter_mut().enumerate();
            for (side, op) in
                programs.flat_map(|(side, ops)| ops.iter_mut().map(move |op| (side, op)))
            {
                op.to = own;
                if link.service == Service::Ud {
                    op.to = rng.pick(&open);
                    // A key with its high bit set is never sent but as the sender's own.
                    let (theirs, ours) = (keys[op.to][1 - side], keys[own][side]);
                    let possible = theirs.0 >> 31 == 0 || theirs == ours;
                    op.good_key = possible && rng.chance(0.85);
                }
            }
            // The last of each program shows that the link still works.
            for program in &mut link.programs {
                if let Some(last) = program.last_mut() {
                    (last.to, last.good_key) = (own, true);
                }
            }
        }
    }

    fn size_pools(&mut self, rng: &mut Rng) {
        let messages: usize = self
            .links
            .iter()
            .map(|link| link.programs.concat().len())
            .sum();
        for link in &self.links {
            for side in 0..2 {
                let pool = &mut self.pools[side][link.pools[side]];
                pool.users += 1;
                // Datagrams come from any queue pair.
                let from = self.links.iter().filter(|other| {
                    core::ptr::eq(*other, link)
                        || link.service == Service::Ud && other.service == Service::Ud
                });
                for op in from.flat_map(|from| &from.programs[1 - side]) {
                    let bytes = if op.writes() { 0 } else { op.len };
                    pool.capacity = pool.capacity.max(bytes + AREA);
                }
            }
        }
        for pool in self.pools.iter_mut().flatten() {
            // Each user may hold one receive for a message that never ends.
            pool.depth += if pool.shared { pool.users + 1 } else { 0 };
            pool.capacity += rng.below(9) as usize;
            if self.all_arrive {
                pool.depth = messages + 16;
            }
        }
    }
}

impl PoolPlan {
    fn random(rng: &mut Rng, shared: bool) -> Self {
        Self {
            depth: rng.pick(&[1, 2, 5, 24]),
            shared,
            capacity: AREA,
            pause: Duration::from_micros(rng.pick(&[0, 0, 5, 60])),
            users: 0,
        }
    }
}

fn program(
    rng: &mut Rng,
    service: Service,
    mtu: Mtu,
    sq_depth: usize,
    count: u64,
    target: &mut usize,
) -> Vec<Op> {
    let signal_every = rng.pick(&[1, 1, 3, 50]);
    let mut unsignaled = 0;
    let mut make = |number: u64| {
        let imm = (rng.bits() as u32).to_be_bytes();
        let last = number + 1 == count;
        let kind = match rng.below(if service == Service::Ud || last { 2 } else { 5 }) {
            0 => Kind::Send,
            1 => Kind::SendImm(imm),
            2 => Kind::WriteImm(imm),
            _ => Kind::Write,
        };
        let len = length(rng, service, mtu).max(if last { 8 } else { 0 });
        unsignaled += 1;
        let mut flags = SendFlags::NONE;
        // The last message waits until all before it are known to be done.
        if number + 2 >= count || unsignaled >= sq_depth || rng.below(signal_every) == 0 {
            (flags, unsignaled) = (SendFlags::SIGNALED, 0);
        }
        if rng.chance(0.3) {
            flags = flags | SendFlags::SOLICITED;
        }
        *target += rng.below(9) as usize;
        let slot = *target;
        if matches!(kind, Kind::Write | Kind::WriteImm(_)) {
            *target += len;
        }
        Op {
            kind,
            len,
            source: rng.below((SOURCE - len) as u64) as usize,
            slot,
            to: 0,
            flags,
            inline: len <= INLINE && rng.chance(0.4),
            good_key: true,
        }
    };
    let ops = (0..count).map(&mut make).collect();
    *target += 8;
    ops
}

/// Returns the keys of two ends that can send to each other.
fn qkeys(rng: &mut Rng) -> [QKey; 2] {
    if rng.chance(0.2) {
        return [QKey(0x8000_0003); 2];
    }
    [(); 2].map(|()| QKey(rng.pick(&[7, 7, 0x1111_1111])))
}

fn length(rng: &mut Rng, service: Service, mtu: Mtu) -> usize {
    let packet = if service == Service::Ud {
        Mtu::B4096.bytes()
    } else {
        mtu.bytes()
    };
    let packet = packet as u64;
    let len = match rng.below(6) {
        0 => 0,
        1 => rng.range(1..=INLINE as u64),
        2 => packet - rng.below(3),
        3 => rng.below(packet),
        _ if service == Service::Ud => rng.below(600),
        4 => rng.range(1..=3) * packet + rng.below(3) - 1,
        _ => rng.below(6 * packet),
    };
    len as usize
}

/// Bytes of a region that windows are bound to.
pub(in crate::workload) const WINDOWED: usize = 4096;
