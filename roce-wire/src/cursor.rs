//! Reading and writing from front to back: the only place that splits bytes.

use crate::error::{ParseError, Part};

/// Takes parts from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that were not taken yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the next `N` bytes.
    ///
    /// # Errors
    ///
    /// Fewer than `N` bytes are left: `part` is truncated. Nothing is taken then.
    #[inline]
    pub fn array<const N: usize>(&mut self, part: Part) -> Result<&'a [u8; N], ParseError> {
        let (head, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(ParseError::Truncated(part))?;
        self.rest = rest;
        Ok(head)
    }

    /// Takes the last `N` bytes.
    ///
    /// # Errors
    ///
    /// Fewer than `N` bytes are left: `part` is truncated. Nothing is taken then.
    #[inline]
    pub fn trailer<const N: usize>(&mut self, part: Part) -> Result<&'a [u8; N], ParseError> {
        let (rest, tail) = self
            .rest
            .split_last_chunk()
            .ok_or(ParseError::Truncated(part))?;
        self.rest = rest;
        Ok(tail)
    }

    /// Keeps the first `len` bytes and returns whether there were so many.
    #[inline]
    pub fn cut(&mut self, len: usize) -> bool {
        match self.rest.get(..len) {
            Some(kept) => {
                self.rest = kept;
                true
            }
            None => false,
        }
    }
}

/// Puts parts at the front of a slice.
#[derive(Debug)]
pub struct Writer<'a> {
    rest: &'a mut [u8],
}

impl<'a> Writer<'a> {
    /// Starts at the front of `bytes`.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns how many bytes have room.
    pub const fn room(&self) -> usize {
        self.rest.len()
    }

    /// Puts `bytes`.
    ///
    /// # Panics
    ///
    /// There is no room: the caller has asked for fewer bytes than it writes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.skip(bytes.len()).copy_from_slice(bytes);
    }

    /// Passes over `len` bytes and returns them to be filled by somebody else.
    ///
    /// # Panics
    ///
    /// As `put`.
    #[inline]
    pub fn skip(&mut self, len: usize) -> &'a mut [u8] {
        let (head, rest) = core::mem::take(&mut self.rest).split_at_mut(len);
        self.rest = rest;
        head
    }
}

/// Returns the low 24 bits of a big-endian word of three bytes.
pub(crate) const fn u24(bytes: [u8; 3]) -> u32 {
    u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_read_takes_nothing() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.array::<2>(Part::Bth), Ok(&[1, 2]));
        assert_eq!(
            reader.array::<2>(Part::Reth),
            Err(ParseError::Truncated(Part::Reth))
        );
        assert!(!reader.cut(2));
        assert_eq!(reader.trailer::<1>(Part::Icrc), Ok(&[3]));
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn a_writer_fills_from_the_front() {
        let mut bytes = [0; 4];
        let mut writer = Writer::new(&mut bytes);
        writer.put(&[1, 2]);
        writer.skip(1)[0] = 7;
        assert_eq!(writer.room(), 1);
        assert_eq!(bytes, [1, 2, 7, 0]);
    }
}
