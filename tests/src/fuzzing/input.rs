//! Bytes as a sequence of choices.

/// Hands out the bytes of an input. Behind its end everything is 0, so 0 should mean the plain choice.
#[derive(Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns whether all bytes were handed out.
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes up to `len` bytes; fewer at the end.
    pub fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.take(self.rest.len())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = self.take(N);
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Takes two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Takes four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Takes eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Takes a byte as a number below `count`, which is 1 to 256.
    pub fn below(&mut self, count: usize) -> usize {
        usize::from(self.u8()) % count
    }

    /// Takes a byte as a rare yes: one of `odds` values.
    pub fn rarely(&mut self, odds: u8) -> bool {
        self.u8() % odds == odds - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_reads_as_plain_choices() {
        let mut input = Input::new(&[1, 2, 3]);
        assert_eq!(input.u16(), 0x201);
        assert_eq!(input.u32(), 3);
        assert!(input.is_empty());
        assert!(!input.rarely(2));
        assert_eq!(input.below(7), 0);
        assert!(input.take(5).is_empty());
    }
}
