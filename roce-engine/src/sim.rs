//! A world of devices on one virtual network and one virtual clock (feature `sim`).
//!
//! Everything random comes from one seed, time is virtual, and nothing is left to the machine: a run
//! repeats exactly. A step gives each device one turn, then moves time to whatever comes next: a
//! packet's arrival, a device's deadline, or one turn's time when something is still moving.
//!
//! ```text
//!  World ── SimClock ──▶ SoftDevice ─ SimLink ─┐
//!                        SoftDevice ─ SimLink ─┼─ Net: faults, rules, trace
//!                        raw SimLink ──────────┘   (a peer that speaks packets)
//! ```

mod clock;
mod faults;
mod link;
mod net;
mod rng;
mod rule;
mod trace;

pub use clock::SimClock;
pub use faults::{Bottleneck, Faults, Loss};
pub use link::{SimLink, SimLinkConfig};
pub use net::{Datagram, Net, PortId};
pub use rng::Rng;
pub use rule::{Action, Rule};
pub use trace::{Fate, Record, Trace};

use core::cell::{RefCell, RefMut};
use core::time::Duration;

use alloc::rc::Rc;
use alloc::vec::Vec;

use crate::clock::Clock;
use crate::config::EngineConfig;
use crate::device::SoftDevice;
use crate::time::Instant;
use crate::verbs::Backend;

/// Devices, their network and their time.
#[derive(Debug)]
pub struct World {
    clock: SimClock,
    net: Rc<RefCell<Net>>,
    devices: Vec<SoftDevice<SimLink, SimClock>>,
    steps: u64,
    seen: (u64, u64),
}

/// How far a run may go: every run ends.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Virtual time from here.
    pub time: Duration,
    /// Steps from here.
    pub steps: u64,
}

impl Bound {
    /// Bounds a run by virtual time, and by a million steps.
    pub const fn time(time: Duration) -> Self {
        Self {
            time,
            steps: 1_000_000,
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The condition is true.
    Met,
    /// The condition is false, and nothing would ever happen again.
    Idle,
    /// The virtual time is over.
    TimeUp,
    /// The steps are used up.
    StepsUp,
}

impl World {
    /// Makes a world without devices.
    pub fn new(seed: u64) -> Self {
        Self {
            clock: SimClock::default(),
            net: Rc::new(RefCell::new(Net::new(seed))),
            devices: Vec::new(),
            steps: 0,
            seen: (0, 0),
        }
    }

    /// Adds a device; its number is the count of those before it.
    pub fn add_device(&mut self, link: &SimLinkConfig, config: EngineConfig) -> usize {
        let link = SimLink::new(&self.net, link);
        let name = alloc::format!("sim{}", self.devices.len());
        let device = SoftDevice::new(&name, link, self.clock.clone(), config);
        self.devices.push(device);
        self.devices.len() - 1
    }

    /// Adds a port without a device: a peer that its owner plays by hand.
    pub fn add_raw_port(&mut self, link: &SimLinkConfig) -> SimLink {
        SimLink::new(&self.net, link)
    }

    /// Returns a device.
    ///
    /// # Panics
    ///
    /// There is none of this number.
    pub fn device(&mut self, number: usize) -> &mut SoftDevice<SimLink, SimClock> {
        &mut self.devices[number]
    }

    /// Returns the network.
    ///
    /// # Panics
    ///
    /// The network is already borrowed.
    pub fn net(&self) -> RefMut<'_, Net> {
        self.net.borrow_mut()
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns how many steps were made.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// Gives each device a turn, then moves time to what comes next; returns whether anything comes.
    ///
    /// # Panics
    ///
    /// A device reports an error of its link, which a simulated link never makes.
    pub fn step(&mut self) -> bool {
        self.step_within(Instant::NEVER)
    }

    /// Steps, but moves time no further than `deadline`.
    fn step_within(&mut self, deadline: Instant) -> bool {
        self.steps += 1;
        for device in &mut self.devices {
            device.progress().expect("a simulated link doesn't fail");
        }
        // Whatever sent or received may have more to do, also what was polled between steps.
        let traffic = self.traffic();
        let moved = self.is_unfinished() | (traffic != self.seen);
        self.seen = traffic;
        let Some(next) = self.next_event(moved) else {
            return false;
        };
        let now = next.max(self.now().after(TURN)).min(deadline);
        self.clock.set(now);
        self.net().advance(now);
        true
    }

    /// Steps until the condition is true, nothing can happen any more, or the bound is reached.
    ///
    /// The condition is asked before every step and may change the world, so it is also where a
    /// program polls and posts.
    pub fn run_until<F>(&mut self, bound: Bound, mut condition: F) -> Ended
    where
        F: FnMut(&mut Self) -> bool,
    {
        let deadline = self.now().after(bound.time);
        let last_step = self.steps.saturating_add(bound.steps);
        let mut quiet = 0;
        loop {
            if condition(self) {
                return Ended::Met;
            }
            if quiet >= 2 {
                return Ended::Idle;
            }
            if self.now() >= deadline {
                return Ended::TimeUp;
            }
            if self.steps >= last_step {
                return Ended::StepsUp;
            }
            quiet = if self.step_within(deadline) {
                0
            } else {
                quiet + 1
            };
        }
    }

    /// Steps for this long, or until nothing can happen any more.
    pub fn run_for(&mut self, time: Duration) -> Ended {
        self.run_until(Bound::time(time), |_| false)
    }

    fn traffic(&self) -> (u64, u64) {
        let net = self.net.borrow();
        (net.sent(), net.delivered())
    }

    fn is_unfinished(&mut self) -> bool {
        let unfinished = |device: &mut SoftDevice<SimLink, SimClock>| {
            let link = device.link_mut();
            link.take_refused() | link.has_arrivals()
        };
        self.devices.iter_mut().any(unfinished)
    }

    fn next_event(&self, moved: bool) -> Option<Instant> {
        let soon = moved.then(|| self.now().after(TURN));
        let arrival = self.net.borrow().next_arrival();
        let timeouts = self.devices.iter().filter_map(SoftDevice::next_timeout);
        timeouts.chain(soon).chain(arrival).min()
    }
}

/// What a turn costs in virtual time, so that no number of turns stands still.
const TURN: Duration = Duration::from_nanos(100);
