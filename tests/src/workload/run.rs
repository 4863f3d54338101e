//! Drives a plan's programs to their end and asks the model about everything that happens.

use core::fmt;
use core::time::Duration;

use roce_engine::sim::{Bound, Ended, Rng, World};
use roce_engine::verbs::{AsyncEvent, Backend, Completion, QpAttr, QpState, Status};

use crate::oracle::{Direction, Memory, SharedAdds};
use crate::workload::mixed::Mixed;
use crate::workload::pauses::Pauses;
use crate::workload::post::{RECEIVE, Requests};
use crate::workload::setup::{Side, build, memory};
use crate::workload::{Kind, Mode, Plan};

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Packets that the devices sent.
    pub packets: u64,
    /// Turns of the world.
    pub steps: u64,
    /// Virtual time.
    pub time: Duration,
    /// Requests that completed with success.
    pub completed: usize,
    /// Directions that ended in an error.
    pub failed: usize,
    /// 1 if queue pairs of other services took part.
    pub mixed: usize,
    /// Messages of UC sent, and those with a receive that arrived.
    pub uc: [usize; 2],
    /// Datagrams sent and received.
    pub ud: [usize; 2],
    /// Messages of RC between them, sent and received.
    pub more_rc: [usize; 2],
    /// Memory windows bound.
    pub binds: usize,
    /// Limit events of SRQs.
    pub limits: usize,
    /// Send queues that drained in SQD, with an event.
    pub drained: usize,
    /// Queue pairs that were destroyed with packets on the way.
    pub destroyed: usize,
}

impl Report {
    /// Adds what the services of another run did.
    pub fn add_services(&mut self, other: &Self) {
        self.mixed += other.mixed;
        for (sum, more) in [
            (&mut self.uc, other.uc),
            (&mut self.ud, other.ud),
            (&mut self.more_rc, other.more_rc),
        ] {
            *sum = [sum[0] + more[0], sum[1] + more[1]];
        }
        self.binds += other.binds;
        self.limits += other.limits;
        self.drained += other.drained;
        self.destroyed += other.destroyed;
    }

    /// Returns what services beside the RC connections did, as a sentence.
    pub fn services(&self) -> String {
        let [uc, ud, rc] = [self.uc, self.ud, self.more_rc].map(|[sent, got]| {
            // A WRITE takes no receive, so fewer arrive than were sent even if none is lost.
            format!("{sent} sent and {got} received")
        });
        format!(
            "{} of them with all services: UC {uc}, UD {ud}, RC among them {rc}; {} windows bound, \
             {} SRQ limit events, {} send queues drained, {} queue pairs destroyed",
            self.mixed, self.binds, self.limits, self.drained, self.destroyed
        )
    }
}

/// What went wrong, with the packets before it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What the model or the driver says.
    pub what: String,
    /// One line a packet.
    pub packets: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.packets, self.what)
    }
}

/// Runs a plan, keeping the last `trace` packets for a failure's sake.
///
/// # Errors
///
/// A completion, a byte of memory or the run's end is not as the model says.
pub fn run(plan: &Plan, trace: usize) -> Result<Report, Failure> {
    let mut rng = Rng::new(plan.seed ^ 0x00d1_ce5e_ed00);
    let (mut world, sides) = build(plan, &mut rng);
    world.net().trace_packets(trace);
    let mut pauses = Pauses::default();
    let mixed = Mixed::new(&mut world, plan, &mut pauses, &mut rng);
    let mut driver = Driver::new(plan, sides, (mixed, pauses), rng);
    driver.pause_connections(&mut world);
    let outcome = driver.drive(&mut world);
    outcome
        .map(|()| driver.report(&world))
        .map_err(|what| Failure {
            what,
            packets: world.net().trace().to_string(),
        })
}

struct Driver<'a> {
    plan: &'a Plan,
    rng: Rng,
    sides: [Side; 2],
    /// By side and connection, of the direction whose requester is there.
    directions: [Vec<Direction>; 2],
    memories: [Vec<Memory>; 2],
    /// By responder.
    adds: [SharedAdds; 2],
    receives: [Vec<Receives>; 2],
    /// Whether the peer of a failed end is told, as an application would, or finds out by itself.
    tell_peer: bool,
    closed: [Vec<bool>; 2],
    mixed: Mixed<'a>,
    pauses: Pauses,
    drained: usize,
    /// Nothing waits for its turn any more: everything is polled and posted.
    hurry: bool,
}

/// The receives of one end.
#[derive(Clone, Copy, Debug, Default)]
struct Receives {
    posted: usize,
    completed: usize,
    next_at: Duration,
}

impl<'a> Driver<'a> {
    fn new(
        plan: &'a Plan,
        sides: [Side; 2],
        (mixed, pauses): (Mixed<'a>, Pauses),
        mut rng: Rng,
    ) -> Self {
        let count = plan.connections.len();
        let memories = [0, 1].map(|side| (0..count).map(|c| memory(&sides, side, c)).collect());
        let direction = |side: usize, c: usize, memories: &[Vec<Memory>; 2]| {
            let peer = &sides[1 - side].endpoints[c];
            Direction::new(
                format!("connection {c} from side {side}"),
                plan.connections[c].ends[side].program.clone(),
                peer.receives.clone(),
                peer.spare.clone(),
                &memories[side][c],
            )
        };
        let directions =
            [0, 1].map(|side| (0..count).map(|c| direction(side, c, &memories)).collect());
        let receives = [0, 1].map(|side| {
            let end = |c: usize| &plan.connections[c].ends[side];
            let first = |c: usize| Receives {
                next_at: if end(c).eager_receives {
                    Duration::ZERO
                } else {
                    end(c).receive_pause
                },
                ..Receives::default()
            };
            (0..count).map(first).collect()
        });
        Self {
            plan,
            directions,
            memories,
            adds: [0, 1].map(|side| SharedAdds::new(&sides[side].shared.region)),
            sides,
            receives,
            tell_peer: rng.chance(0.5),
            closed: [vec![false; count], vec![false; count]],
            mixed,
            pauses,
            drained: 0,
            hurry: false,
            rng,
        }
    }

    fn pause_connections(&mut self, world: &mut World) {
        for side in 0..2 {
            for endpoint in &self.sides[side].endpoints {
                let info = world.device(side).query_qp(endpoint.qp);
                let qpn = info.expect("the queue pair").qpn;
                let most = self.rng.below(3) as u32;
                self.pauses.add(side, endpoint.qp, qpn, most);
            }
        }
    }

    fn drive(&mut self, world: &mut World) -> Result<(), String> {
        if self.plan.mode == Mode::Liveness {
            let phase = self.plan.fault_phase;
            self.run_until(world, phase)?;
            world.net().heal();
        }
        self.hurry = false;
        let mut ended = self.run_until(world, LONGEST)?;
        // Requests that send nothing are posted without any traffic: it is over when nothing is posted.
        let mut before = None;
        while ended == Ended::Idle && before != Some(self.mixed.activity()) {
            before = Some(self.mixed.activity());
            self.hurry = true;
            ended = self.run_until(world, LONGEST)?;
        }
        if matches!(ended, Ended::TimeUp | Ended::StepsUp) {
            return Err(format!(
                "the run never ends: {ended:?}: {}",
                self.progress()
            ));
        }
        self.hurry = true;
        for side in 0..2 {
            for cq in 0..self.sides[side].cqs.len() {
                self.poll(world, side, cq)?;
            }
        }
        if self.plan.mode == Mode::Liveness {
            self.send_last(world)?;
        }
        for side in 0..2 {
            self.take_events(world, side)?;
        }
        self.pauses.on_end(world)?;
        self.mixed.on_end(world)?;
        self.check_end(world)
    }

    /// Over the healed network each unreliable program ends with a message that must arrive.
    fn send_last(&mut self, world: &mut World) -> Result<(), String> {
        let mut done = 0;
        while self.mixed.next_last(world, &mut done)? {
            let ended = self.run_until(world, LONGEST)?;
            if ended != Ended::Idle {
                return Err(format!("after a last message: {ended:?}"));
            }
        }
        Ok(())
    }

    fn run_until(&mut self, world: &mut World, time: Duration) -> Result<Ended, String> {
        let mut wrong = None;
        let bound = Bound {
            time,
            steps: MOST_STEPS,
        };
        let ended = world.run_until(bound, |world| match self.turn(world) {
            Ok(done) => done,
            Err(text) => {
                wrong = Some(text);
                true
            }
        });
        wrong.map_or(Ok(ended), Err)
    }

    /// Polls and posts on both sides; returns whether everything is done.
    fn turn(&mut self, world: &mut World) -> Result<bool, String> {
        self.mixed.poll_all(world, &mut self.rng, self.hurry)?;
        for side in 0..2 {
            self.take_events(world, side)?;
        }
        self.mixed
            .turn(world, &mut self.pauses, &mut self.rng, self.hurry)?;
        self.pauses.turn(world, &mut self.rng, self.hurry)?;
        for side in 0..2 {
            for cq in 0..self.sides[side].cqs.len() {
                if self.hurry || self.rng.chance(0.9) {
                    self.poll(world, side, cq)?;
                }
            }
            for connection in 0..self.plan.connections.len() {
                self.post_receives(world, side, connection)?;
                self.post_requests(world, side, connection)?;
            }
        }
        // What is sent without acknowledgement arrives after all is done: such a run ends in silence.
        let done = self.directions.iter().flatten().all(Direction::is_done);
        Ok(done && self.mixed.is_empty())
    }

    fn poll(&mut self, world: &mut World, side: usize, cq: usize) -> Result<(), String> {
        let watched = &mut self.sides[side].cqs[cq];
        let completions = watched.poll(world.device(side), &mut self.rng, self.hurry)?;
        completions
            .iter()
            .try_for_each(|wc| self.on_completion(world, side, wc))
    }

    fn take_events(&mut self, world: &mut World, side: usize) -> Result<(), String> {
        while let Some(event) = world.device(side).poll_event() {
            if self.mixed.on_event(side, &event)? {
                continue;
            }
            match event {
                AsyncEvent::SqDrained(qpn) => {
                    self.drained += 1;
                    self.pauses.on_drained(world, side, qpn)?;
                }
                AsyncEvent::CommEstablished(_) => {}
                event => return Err(format!("side {side}: unexpected event {event:?}")),
            }
        }
        Ok(())
    }

    fn on_completion(
        &mut self,
        world: &mut World,
        side: usize,
        wc: &Completion,
    ) -> Result<(), String> {
        let connection = (wc.wr_id >> 32 & 0xffff) as usize;
        let index = wc.wr_id as u32 as usize;
        let qp = self.sides[side].endpoints[connection].qp;
        let qpn = world
            .device(side)
            .query_qp(qp)
            .map_err(|error| error.to_string())?
            .qpn;
        if wc.qpn != qpn {
            return Err(format!("side {side}: {wc:?} names another QP than {qpn}"));
        }
        if wc.wr_id & RECEIVE != 0 {
            self.receives[side][connection].completed += 1;
            let memory = &self.memories[1 - side][connection];
            return self.directions[1 - side][connection].on_recv_completion(memory, index, wc);
        }
        let memory = &self.memories[side][connection];
        let direction = &mut self.directions[side][connection];
        direction.on_send_completion(memory, index, wc, &mut self.adds[1 - side])?;
        if wc.status != Status::Success {
            self.on_failure(world, side, connection, wc.status)?;
        }
        Ok(())
    }

    fn on_failure(
        &mut self,
        world: &mut World,
        side: usize,
        connection: usize,
        status: Status,
    ) -> Result<(), String> {
        let finite = self.plan.connections[connection].rnr_retry < 7;
        let expected = match self.directions[side][connection].failed() {
            Some(Status::RetryExcErr) => true,
            Some(Status::RnrRetryExcErr) => finite,
            Some(Status::WrFlushErr) => self.closed[side][connection],
            _ => false,
        };
        if !expected || self.plan.mode == Mode::Liveness {
            return Err(format!(
                "connection {connection}, side {side}: failed with {status}"
            ));
        }
        let peer = 1 - side;
        if self.tell_peer && !self.closed[peer][connection] {
            self.closed[peer][connection] = true;
            let to_error = QpAttr {
                state: Some(QpState::Err),
                ..QpAttr::default()
            };
            let qp = self.sides[peer].endpoints[connection].qp;
            let modified = world.device(peer).modify_qp(qp, &to_error);
            modified.map_err(|error| format!("to the error state: {error}"))?;
        }
        Ok(())
    }

    fn post_receives(
        &mut self,
        world: &mut World,
        side: usize,
        connection: usize,
    ) -> Result<(), String> {
        let now = Duration::from_nanos(world.now().as_nanos());
        let receives = &mut self.receives[side][connection];
        let end = &self.plan.connections[connection].ends[side];
        let endpoint = &self.sides[side].endpoints[connection];
        let room = end.rq_depth - (receives.posted - receives.completed);
        let room = room.min(endpoint.receives.len() - receives.posted);
        if room == 0 || (now < receives.next_at && !self.hurry) {
            return Ok(());
        }
        let count = if self.hurry {
            room
        } else {
            self.rng.range(1..=room as u64) as usize
        };
        receives.next_at = now + end.receive_pause;
        Requests::post_receives(
            world.device(side),
            endpoint,
            connection,
            receives.posted,
            count,
        )
        .map_err(|error| format!("side {side}: receive {}: {error}", receives.posted))?;
        receives.posted += count;
        Ok(())
    }

    fn post_requests(
        &mut self,
        world: &mut World,
        side: usize,
        connection: usize,
    ) -> Result<(), String> {
        let direction = &mut self.directions[side][connection];
        let end = &self.plan.connections[connection].ends[side];
        let room = end.sq_depth - (direction.posted() - direction.completed());
        let left = end.program.ops.len() - direction.posted();
        let count = room.min(left).min(self.rng.range(1..=8) as usize);
        if count == 0 || (!self.hurry && self.rng.chance(0.3)) {
            return Ok(());
        }
        let first = direction.posted();
        let ops = &end.program.ops[first..first + count];
        // Before the call: a posted request may already be seen by the peer when the call returns.
        direction.on_posted(count);
        let peer = &self.sides[1 - side];
        Requests::new(&self.sides[side].endpoints[connection], peer, connection)
            .post(world.device(side), first, ops)
            .map_err(|error| format!("side {side}: request {first}: {error}"))
    }

    fn check_end(&mut self, world: &mut World) -> Result<(), String> {
        let all = self.plan.mode == Mode::Liveness;
        for side in 0..2 {
            for (connection, direction) in self.directions[side].iter_mut().enumerate() {
                direction.on_end(&self.memories[side][connection], all)?;
            }
            self.adds[side].on_end(&self.sides[side].shared.region, &self.open_adds(1 - side))?;
            self.check_flushed(world, side)?;
            let timeouts = world.device(side).engine().counters().local_ack_timeout_err;
            if self.plan.is_calm() && timeouts > 0 {
                return Err(format!(
                    "side {side}: {timeouts} timeouts without any fault"
                ));
            }
            self.take_events(world, side)?;
        }
        Ok(())
    }

    /// A queue pair in error has nothing left: everything that was posted came back.
    fn check_flushed(&self, world: &mut World, side: usize) -> Result<(), String> {
        for (connection, direction) in self.directions[side].iter().enumerate() {
            let qp = self.sides[side].endpoints[connection].qp;
            let info = world
                .device(side)
                .query_qp(qp)
                .map_err(|error| error.to_string())?;
            let receives = self.receives[side][connection];
            if info.state != QpState::Err {
                continue;
            }
            if !direction.is_settled() || receives.posted != receives.completed {
                return Err(format!(
                    "connection {connection}, side {side}: not all was flushed: {direction}, {receives:?}"
                ));
            }
        }
        Ok(())
    }

    fn open_adds(&self, side: usize) -> Vec<(usize, u64)> {
        let mut open = Vec::new();
        for (connection, direction) in self.directions[side].iter().enumerate() {
            let ops = &self.plan.connections[connection].ends[side].program.ops;
            for op in &ops[direction.done()..direction.posted()] {
                if let Kind::SharedAdd { add } = op.kind {
                    open.push((op.remote, add));
                }
            }
        }
        open
    }

    fn progress(&self) -> String {
        let lines = self.directions.iter().flatten().map(ToString::to_string);
        lines.collect::<Vec<_>>().join("; ")
    }

    fn report(&self, world: &World) -> Report {
        let directions = || self.directions.iter().flatten();
        let mut report = Report {
            packets: world.net().sent(),
            steps: world.steps(),
            time: Duration::from_nanos(world.now().as_nanos()),
            completed: directions().map(Direction::done).sum(),
            failed: directions()
                .filter(|direction| direction.failed().is_some())
                .count(),
            drained: self.drained,
            ..Report::default()
        };
        self.mixed.report(&mut report);
        report
    }
}

/// Virtual time in which every run is over: the longest waits are eight timeouts of some seconds.
const LONGEST: Duration = Duration::from_secs(3600);
const MOST_STEPS: u64 = 2_000_000;
