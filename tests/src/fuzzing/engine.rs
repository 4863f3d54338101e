//! The engine as a network sees it: packets with a right ICRC and any fields, verbs calls and time between
//! them.
//!
//! An input is a program: a few bytes of settings, then a step each. Whatever the program, memory changes
//! only where something allows it, no packet carries memory that its receiver may not see, every request
//! completes at most once and in order, everything completes in the end, and the counters add up.

mod bed;
mod forge;
mod ledger;
mod link;
mod messages;
mod verbs;
mod work;

use roce_engine::verbs::{QpAttr, QpState};

use super::input::Input;
use bed::Bed;

/// Steps of a program, so that its time is bounded.
const MAX_STEPS: usize = 200;
/// Turns after which an engine that hears nothing must have said everything.
const MAX_LAST_TURNS: usize = 200;

/// Runs the program that an input describes.
///
/// # Panics
///
/// The engine panicked or broke a promise.
pub fn receive(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut bed = Bed::new(&mut input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        bed.step(&mut input);
    }
    bed.finish();
}

impl Bed {
    fn step(&mut self, input: &mut Input<'_>) {
        let choice = input.u8();
        let n = usize::from(choice >> 7);
        match choice & 0x1f {
            0..=5 => self.message(n, input),
            6..=9 => self.answer(n, input),
            10 | 11 => self.lone_request(n, input),
            12 | 13 => self.lone_response(n, input),
            14 => self.noise(input),
            15 | 16 => self.again(input),
            17..=20 => self.post_send(n, input),
            21..=23 => self.post_recv(n, input),
            24 => {
                let most = input.below(6);
                self.poll(most);
            }
            25 | 26 => self.pass_time(input),
            27 => self.change_state(n, input),
            28 => self.change_objects(input),
            29 => {
                let room = input.below(8);
                self.turn(room, false);
            }
            30 => self.turn(64, true),
            _ => self.ledger.check(),
        }
        if choice & 0x60 != 0x60 {
            self.turn(16, false);
        }
    }

    fn finish(mut self) {
        self.drain();
        self.poll(usize::MAX);
        self.ledger.check();
        self.check_counters();
        let error = QpAttr {
            state: Some(QpState::Err),
            ..QpAttr::default()
        };
        for side in self.sides {
            self.engine
                .modify_qp(side.qp, &error, |_, wanted| wanted)
                .expect("every state but RESET leads to ERR");
        }
        self.poll(usize::MAX);
        if !self.work.overflowed {
            self.work.check_flushed();
        }
        self.ledger.check();
        self.take_down();
    }

    /// Nothing arrives any more: what the engine has to say is finite.
    fn drain(&mut self) {
        for _ in 0..MAX_LAST_TURNS {
            if !self.engine.wants_to_send() {
                return;
            }
            self.turn(usize::MAX, true);
        }
        panic!("still wants to send after {MAX_LAST_TURNS} turns of a link with room");
    }

    fn check_counters(&self) {
        let counters = self.engine.counters();
        assert_eq!(counters.rcvd_pkts, self.received);
        assert_eq!(counters.sent_pkts, self.link.sent);
        let dropped = counters.drop_unknown_opcode
            + counters.drop_bad_version
            + counters.drop_qp1
            + counters.drop_unknown_qpn
            + counters.drop_qp_state
            + counters.drop_wrong_service
            + counters.drop_wrong_source
            + counters.drop_wrong_destination
            + counters.drop_bad_icrc
            + self.malformed;
        let passed = counters.icrc_exact + counters.icrc_some_id;
        assert_eq!(dropped + passed, self.received, "{counters}");
        assert!(counters.drop_malformed >= self.malformed, "{counters}");
    }

    /// Every object can be destroyed in the end: nothing is counted as used that isn't.
    fn take_down(mut self) {
        for side in self.sides {
            self.engine.destroy_qp(side.qp).expect("it lives");
        }
        for cq in self.cqs {
            self.engine.destroy_cq(cq).expect("nothing uses it");
        }
        self.engine.destroy_srq(self.srq).expect("nothing uses it");
        self.engine.destroy_ah(self.ah).expect("it lives");
        if self.window.alive {
            self.engine.dealloc_mw(self.window.mw).expect("it lives");
        }
        for name in ledger::Name::ALL {
            if !self.ledger.is_frozen(name) {
                self.engine
                    .deregister(self.ledger.mr(name))
                    .expect("nothing is bound to it");
            }
        }
        for pd in self.pds {
            self.engine.dealloc_pd(pd).expect("nothing uses it");
        }
    }
}

/// Returns programs that get far: each step once, with plain choices and with others.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut programs = Vec::new();
    for service in 0..4 {
        for variant in 0..=15 {
            let mut program = vec![service | variant << 4, 0x40, 0, variant, 0, 12, 1];
            // Receives, then requests of every kind, then answers to what was posted.
            for step in [21, 21, 17, 0, 17, 6, 1, 24, 18, 7, 25, 2, 19, 8, 10, 12, 24] {
                program.push(step | (variant & 1) << 7);
                program.extend((0..12).map(|n: u8| n.wrapping_mul(variant * 16 + 1)));
            }
            programs.push(program);
        }
    }
    programs
}
