//! Objects behind numbers: a stale number names nothing.

/// Objects, each behind a number that is never used for another one again (until 65,536 have had its place).
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u16, Option<T>)>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    /// Keeps an object; returns its number.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let free = self.slots.iter().position(|(_, slot)| slot.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let (generation, slot) = &mut self.slots[index];
        *slot = Some(value);
        u32::from(*generation) << 16 | index as u32
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        let (generation, slot) = self.slots.get((number & 0xffff) as usize)?;
        slot.as_ref()
            .filter(|_| u32::from(*generation) == number >> 16)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (generation, slot) = self.slots.get_mut((number & 0xffff) as usize)?;
        slot.as_mut()
            .filter(|_| u32::from(*generation) == number >> 16)
    }

    /// Returns whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() < 0xffff || self.slots.iter().any(|(_, slot)| slot.is_none())
    }

    /// Takes an object out; its number is dead from here on.
    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        self.get(number)?;
        let (generation, slot) = &mut self.slots[(number & 0xffff) as usize];
        *generation = generation.wrapping_add(1);
        slot.take()
    }

    /// Returns all objects with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, (generation, slot))| {
                let number = u32::from(*generation) << 16 | index as u32;
                slot.as_ref().map(|value| (number, value))
            })
    }

    /// Returns all objects, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|(_, slot)| slot.as_mut())
    }

    /// Takes all objects out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        self.slots.drain(..).filter_map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_dies_with_its_object() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        let second = slab.insert("b");
        assert_eq!(slab.remove(first), Some("a"));
        assert_eq!(slab.remove(first), None);
        let third = slab.insert("c");
        assert_ne!(first, third);
        assert_eq!((slab.get(first), slab.get(third)), (None, Some(&"c")));
        assert_eq!(
            slab.iter().map(|(number, _)| number).collect::<Vec<_>>(),
            [third, second]
        );
        assert!(slab.get(u32::MAX).is_none());
    }
}
