//! A hook for who must see each WRITE of a peer before the next one may overwrite it.

use core::fmt;

use alloc::boxed::Box;

use roce_wire::Qpn;

/// A WRITE of a peer, whose last byte has just been placed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteDone {
    /// The QP that it came through.
    pub qpn: Qpn,
    /// Where it starts.
    pub addr: u64,
    /// Its bytes.
    pub length: u32,
}

/// Called at the last packet of each WRITE, before anything else is executed.
pub struct WriteObserver(Box<dyn FnMut(WriteDone) + Send>);

impl WriteObserver {
    /// Makes an observer of a function.
    pub fn new(function: impl FnMut(WriteDone) + Send + 'static) -> Self {
        Self(Box::new(function))
    }

    /// Tells it of a WRITE.
    pub fn tell(&mut self, done: WriteDone) {
        (self.0)(done);
    }
}

impl fmt::Debug for WriteObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteObserver")
    }
}
