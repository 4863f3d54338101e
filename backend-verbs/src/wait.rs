//! Waiting for a device that progresses by itself.

use core::time::Duration;
use std::time::Instant;

use roce_engine::verbs::DeviceError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::VerbsDevice;

/// How long after the last completion a poller keeps the processor, as perftest does for good: a sleep would be longer
/// than what it waits for, and even to yield is a system call, which without hardware takes longer, too.
const EAGER: Duration = Duration::from_millis(100);
/// How long it sleeps after that.
const NAP: Duration = Duration::from_micros(100);

/// Since when nothing has completed.
#[derive(Debug)]
pub(crate) struct Idle {
    taken: u64,
    since: Instant,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Self {
            taken: 0,
            since: Instant::now(),
        }
    }

    /// Returns for how long no completion has been taken, of which there were `taken` in all.
    fn time(&mut self, taken: u64) -> Duration {
        if taken != self.taken {
            self.taken = taken;
            self.since = Instant::now();
        }
        self.since.elapsed()
    }
}

impl VerbsDevice {
    /// Sleeps until an armed queue tells of a completion or the device of an event; where none is armed, only for as
    /// long as a poller can afford.
    pub(crate) fn sleep(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        if self.objects.cqs.iter().any(|(_, cq)| cq.armed) {
            return self.sleep_on_files(timeout);
        }
        if self.idle.time(self.scratch.taken) < EAGER {
            core::hint::spin_loop();
        } else {
            std::thread::sleep(timeout.min(NAP));
        }
        Ok(())
    }

    fn sleep_on_files(&mut self, timeout: Duration) -> Result<(), DeviceError> {
        let (channel, events) = (self.channel.fd(), self.context.async_fd());
        let mut files = [
            PollFd::new(&channel, PollFlags::IN),
            PollFd::new(&events, PollFlags::IN),
        ];
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(DeviceError(format!(
                "waiting for {}: {error}",
                self.attr.name
            ))),
        }
    }

    /// Notes which queues have told of a completion.
    pub(crate) fn collect_notifications(&mut self) {
        while let Some(element) = self.channel.event() {
            for cq in self.objects.cqs.iter_mut() {
                if cq.raw.is(element) {
                    cq.notified = true;
                    cq.armed = false;
                }
            }
        }
    }
}
