//! A slab of fixed capacity whose slots carry a generation, so that a stale name finds nothing.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values named by index and generation.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    limit: u32,
    first_generation: u32,
    len: u32,
}

impl<T> Arena<T> {
    /// Makes an empty arena of at most `limit` values whose generations start at `first_generation`.
    pub(crate) const fn new(limit: u32, first_generation: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: VecDeque::new(),
            limit,
            first_generation,
            len: 0,
        }
    }

    /// Returns the name (index, generation) that the next insert gives out, if there is room.
    pub(crate) fn vacant(&self) -> Option<(u32, u32)> {
        if self.len >= self.limit {
            return None;
        }
        Some(match self.free.front() {
            Some(&index) => (index, self.slots[index as usize].generation),
            None => (self.slots.len() as u32, self.first_generation),
        })
    }

    /// Stores a value under the name that `vacant` returned.
    pub(crate) fn insert(&mut self, value: T) -> Option<(u32, u32)> {
        let (index, generation) = self.vacant()?;
        if self.free.pop_front().is_some() {
            self.slots[index as usize].value = Some(value);
        } else {
            self.slots.push(Slot {
                generation,
                value: Some(value),
            });
        }
        self.len += 1;
        Some((index, generation))
    }

    /// Takes a value out. Its slot goes to the end of the free list with the next generation.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push_back(index);
        self.len -= 1;
        Some(value)
    }

    /// Passes over the next generation of a slot if it agrees with `generation` in the bits of `mask`.
    pub(crate) fn skip(&mut self, index: u32, generation: u32, mask: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize)
            && (slot.generation ^ generation) & mask == 0
        {
            slot.generation = slot.generation.wrapping_add(1);
        }
    }

    /// Returns the value at an index, whatever its generation.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.value.as_ref()
    }

    /// Returns the value at an index, whatever its generation.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    /// Returns the value of a name whose generation agrees in the bits of `mask`.
    pub(crate) fn named(&self, index: u32, generation: u32, mask: u32) -> Option<&T> {
        let slot = self.slots.get(index as usize)?;
        if (slot.generation ^ generation) & mask != 0 {
            return None;
        }
        slot.value.as_ref()
    }

    /// Returns the value of a name whose generation agrees in the bits of `mask`.
    pub(crate) fn named_mut(&mut self, index: u32, generation: u32, mask: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(index as usize)?;
        if (slot.generation ^ generation) & mask != 0 {
            return None;
        }
        slot.value.as_mut()
    }

    /// Returns all values with their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(i, s)| Some((i as u32, s.value.as_ref()?)))
    }

    /// Returns how many indexes were ever used: a bound for loops by index.
    pub(crate) const fn index_bound(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the limit it was made with.
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_name_finds_nothing() {
        let mut arena = Arena::new(2, 7);
        let (index, generation) = arena.insert('a').expect("room");
        assert_eq!(generation, 7);
        assert_eq!(arena.remove(index), Some('a'));
        let again = arena.insert('b').expect("room");
        assert_eq!(again, (index, 8));
        assert!(arena.named(index, generation, !0).is_none());
        assert_eq!(arena.named(index, 8, !0), Some(&'b'));
    }

    #[test]
    fn a_generation_can_be_passed_over() {
        let mut arena = Arena::new(1, 7);
        arena.insert('a').expect("room");
        arena.remove(0);
        arena.skip(0, 0x109, 0xff);
        assert_eq!(arena.vacant(), Some((0, 8)), "another one");
        arena.skip(0, 0x108, 0xff);
        assert_eq!(arena.vacant(), Some((0, 9)));
    }

    #[test]
    fn the_limit_holds_and_slots_are_reused_in_turn() {
        let mut arena = Arena::new(2, 0);
        arena.insert(1).expect("room");
        arena.insert(2).expect("room");
        assert!(arena.insert(3).is_none());
        arena.remove(1);
        arena.remove(0);
        assert_eq!(
            arena.insert(4),
            Some((1, 1)),
            "the slot that was freed first"
        );
    }
}
