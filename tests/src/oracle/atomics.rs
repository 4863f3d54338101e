//! Words that several connections add to: some serial order must explain every value fetched.

use roce_engine::verbs::Region;

use crate::oracle::Verdict;

/// One addition that a requester saw complete.
#[derive(Clone, Debug)]
pub struct Swap {
    /// Whose.
    pub flow: String,
    /// The value it fetched.
    pub old: u64,
    /// What it left.
    pub new: u64,
}

/// The additions to the shared words of one device.
#[derive(Debug)]
pub struct SharedAdds {
    before: Vec<u64>,
    seen: Vec<Vec<Swap>>,
}

impl SharedAdds {
    /// Starts from the words as they are.
    pub fn new(words: &Region) -> Self {
        let before = values(words);
        Self {
            seen: vec![Vec::new(); before.len()],
            before,
        }
    }

    /// Notes an addition to a word; those of one flow come in its program's order.
    pub fn observe(&mut self, word: usize, flow: &str, add: u64, fetched: &[u8]) {
        let old = fetched.try_into().map_or(0, u64::from_ne_bytes);
        self.seen[word].push(Swap {
            flow: flow.to_owned(),
            old,
            new: old.wrapping_add(add),
        });
    }

    /// Judges all words. `open` are additions, by word, that may or may not have been executed.
    pub fn on_end(&self, words: &Region, open: &[(usize, u64)]) -> Verdict {
        for (word, after) in values(words).into_iter().enumerate() {
            let mut left = self.seen[word].clone();
            let mut maybe: Vec<u64> = of_word(open, word);
            if !explains(self.before[word], after, &mut left, &mut maybe) {
                let before = self.before[word];
                return Err(format!(
                    "shared word {word}: no order of {:?} leads from {before:#x} to {after:#x}",
                    self.seen[word]
                ));
            }
        }
        Ok(())
    }
}

fn values(words: &Region) -> Vec<u64> {
    let bytes = super::memory::whole(words);
    let word = |chunk: &[u8]| chunk.try_into().map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word).collect()
}

fn of_word(open: &[(usize, u64)], word: usize) -> Vec<u64> {
    open.iter()
        .filter(|(at, _)| *at == word)
        .map(|(_, add)| *add)
        .collect()
}

/// Walks from `value` to `after`: each seen addition once, from the value it fetched and in its
/// flow's order, and each unseen one at most once.
fn explains(value: u64, after: u64, left: &mut Vec<Swap>, maybe: &mut Vec<u64>) -> bool {
    if left.is_empty() && value == after {
        return true;
    }
    // Addends are random, so a value hardly ever comes twice: the next step is the only one.
    if let Some(at) = left.iter().position(|swap| swap.old == value) {
        let first_of_flow = left.iter().position(|swap| swap.flow == left[at].flow);
        if first_of_flow != Some(at) {
            return false;
        }
        let swap = left.remove(at);
        return explains(swap.new, after, left, maybe);
    }
    for at in 0..maybe.len() {
        let add = maybe.remove(at);
        if explains(value.wrapping_add(add), after, &mut left.clone(), maybe) {
            return true;
        }
        maybe.insert(at, add);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_found_or_refused() {
        let swap = |flow: &str, old: u64, add: u64| Swap {
            flow: flow.to_owned(),
            old,
            new: old + add,
        };
        let seen = vec![swap("a", 0, 5), swap("b", 5, 7), swap("a", 15, 1)];
        // 12 to 15 is an addition of 3 that nobody saw complete.
        assert!(explains(0, 16, &mut seen.clone(), &mut vec![9, 3]));
        assert!(!explains(0, 16, &mut seen.clone(), &mut vec![9]));
        assert!(!explains(0, 17, &mut seen.clone(), &mut vec![3]));
        let twice = vec![swap("a", 0, 5), swap("b", 0, 5)];
        assert!(!explains(0, 10, &mut twice.clone(), &mut Vec::new()));
        let out_of_order = vec![swap("a", 5, 1), swap("a", 0, 5)];
        assert!(!explains(0, 6, &mut out_of_order.clone(), &mut Vec::new()));
    }
}
