//! Networks of the tests' own.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::sys;

/// Runs `ip` of iproute2.
pub(crate) fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.is_ok_and(|status| status.success()), "ip {words}");
}

/// Runs a test in a network of its own, with a veth pair `near` and `far` of two queues; says so
/// where that can't be.
pub(crate) fn in_a_network(test: impl FnOnce() + Send) {
    // One at a time: until it runs, a child of one test has the sockets and programs of another open, too.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let root = crate::privilege::check("near").is_ok();
            if !root || sys::new_network().is_none() {
                eprintln!("skipped: no privilege to make a network");
                return;
            }
            ip("link add near numrxqueues 2 numtxqueues 2 type veth peer name far numrxqueues 2 numtxqueues 2");
            ip("addr add 10.77.0.1/24 dev near");
            ip("link set near up");
            ip("link set far up");
            test();
        });
        thread.join().unwrap();
    });
}
