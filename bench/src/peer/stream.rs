//! What the exchange runs over: TCP, or whatever else carries bytes both ways without blocking.

use core::fmt;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes to read, or the end.
    Read,
    /// Room to write.
    Write,
}

/// A connection on which a read or write that would block fails with `WouldBlock`.
pub trait Stream: Read + Write + fmt::Debug {
    /// Sleeps until there may be what is waited for, at most so long.
    fn wait(&self, interest: Interest, timeout: Duration);

    /// Returns whether the peer has closed its end and everything before that was read.
    fn at_end(&self) -> bool;

    /// Returns whether there are bytes to read.
    fn has_bytes(&self) -> bool;

    /// Says that nothing more is written.
    ///
    /// # Errors
    /// The connection is gone.
    fn end(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn wait(&self, interest: Interest, timeout: Duration) {
        let flags = match interest {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
        };
        let timeout = Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(self, flags)];
        // An interrupted poll is a short one.
        let _ready = poll(&mut fds, Some(&timeout));
    }

    fn at_end(&self) -> bool {
        match self.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        }
    }

    fn has_bytes(&self) -> bool {
        self.peek(&mut [0]).is_ok_and(|count| count > 0)
    }

    fn end(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}
