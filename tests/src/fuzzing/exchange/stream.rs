//! A peer's stream in memory.

use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};

use roce_bench::peer::{Interest, Stream};

/// What comes behind the last byte.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// The end.
    Closed,
    /// Nothing, for ever.
    Silent,
    /// An error.
    Reset,
}

impl Ending {
    pub(super) const ALL: [Self; 3] = [Self::Closed, Self::Silent, Self::Reset];
}

/// Bytes that arrive in pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    /// Three bits for each read or write in turn, over and over; 0 is all there is.
    pattern: u32,
    interrupted: bool,
    ending: Ending,
}

impl Pieces {
    pub(super) fn new(bytes: &[u8], pattern: u32, ending: Ending) -> Self {
        Self {
            bytes: bytes.to_vec(),
            at: 0,
            // The top bits are not part of a whole turn.
            pattern: pattern & 0x3fff_ffff,
            interrupted: false,
            ending,
        }
    }

    /// Returns how many bytes the next call moves at most, or that it would block.
    fn piece(&mut self) -> io::Result<usize> {
        let choice = self.pattern & 7;
        self.pattern = self.pattern >> 3 | choice << 27;
        match choice {
            0 => Ok(usize::MAX),
            // Never twice in a row: nobody bounds that.
            6 if !core::mem::replace(&mut self.interrupted, true) => {
                Err(ErrorKind::Interrupted.into())
            }
            6 => {
                self.interrupted = false;
                Ok(1)
            }
            7 => Err(ErrorKind::WouldBlock.into()),
            few => Ok(1 << ((few - 1) * 2)),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = &self.bytes[self.at..];
        if left.is_empty() {
            return match self.ending {
                Ending::Closed => Ok(0),
                Ending::Silent => Err(ErrorKind::WouldBlock.into()),
                Ending::Reset => Err(ErrorKind::ConnectionReset.into()),
            };
        }
        let count = left.len().min(out.len());
        let count = count.min(self.piece()?);
        out[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at == self.bytes.len() && self.ending == Ending::Reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(self.piece()?.min(bytes.len()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Pieces {
    fn wait(&self, _: Interest, _: Duration) {}

    fn at_end(&self) -> bool {
        self.at == self.bytes.len() && self.ending != Ending::Silent
    }

    fn has_bytes(&self) -> bool {
        self.at < self.bytes.len()
    }

    fn end(&mut self) -> io::Result<()> {
        match self.ending {
            Ending::Reset => Err(ErrorKind::NotConnected.into()),
            Ending::Closed | Ending::Silent => Ok(()),
        }
    }
}
