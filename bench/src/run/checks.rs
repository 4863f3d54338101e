//! The loops' side of `--verify`: patterns before a post, comparisons after a completion.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;

use super::flow::{Action, Flow};
use super::pattern::Pattern;
use super::verify::Verifier;
use crate::spec::AtomicKind;

/// The accounts of a run, if it checks anything; shared with the device where it reports a peer's WRITEs.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    verifier: Option<Arc<Mutex<Verifier>>>,
}

impl Checks {
    /// Checks with these accounts.
    pub fn new(verifier: Verifier) -> Self {
        Self {
            verifier: Some(Arc::new(Mutex::new(verifier))),
        }
    }

    /// Returns whether anything is checked.
    #[inline]
    pub const fn are_on(&self) -> bool {
        self.verifier.is_some()
    }

    /// Returns how many messages, in whole lists, may be prepared or looked at between two looks at the network: a peer
    /// whose packets nobody takes for longer than its ack timeout sends them again.
    pub fn at_once(&self, size: u32, list: u64) -> u64 {
        if self.are_on() {
            part(size, list)
        } else {
            u64::MAX
        }
    }

    /// Starts a measurement, before which `before` messages went through each QP.
    pub fn begin(&self, before: u64) {
        self.with(|verifier| verifier.begin(before));
    }

    /// Writes the pattern of the next `count` messages that `flow` will post.
    pub fn prepare(&self, flow: &Flow, action: Action, size: u32, count: u64) {
        if !self.are_on() || !matches!(action, Action::Write | Action::Send) {
            return;
        }
        for number in flow.posted..flow.posted + count {
            Pattern::message(flow.psn, flow.before + number).fill(
                0,
                &flow.tx.region,
                flow.tx.offset(number),
                size as usize,
            );
        }
    }

    /// Checks what requests `flow.completed..=last` fetched.
    ///
    /// # Errors
    ///
    /// It is not what the peer has.
    pub fn fetched(&self, flow: &Flow, action: Action, size: u32, last: u64) -> Result<()> {
        let Some(verifier) = &self.verifier else {
            return Ok(());
        };
        let mut verifier = lock(verifier);
        for number in flow.completed..=last {
            match action {
                Action::Write | Action::Send => return Ok(()),
                Action::Read => verifier.fetched(
                    flow.index,
                    flow.walk.offset(number),
                    &flow.tx.region,
                    flow.tx.offset(number),
                    size as usize,
                )?,
                Action::Add | Action::Swap => {
                    let kind = if action == Action::Add {
                        AtomicKind::FetchAdd
                    } else {
                        AtomicKind::CompareSwap
                    };
                    verifier.atomic(flow.index, kind, flow.walk, number, &flow.tx)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the message in receive `number` of `flow`.
    ///
    /// # Errors
    ///
    /// It is not what the peer sent.
    pub fn received(&self, flow: &Flow, action: Action, number: u64, size: u32) -> Result<()> {
        match &self.verifier {
            // A WRITE's immediate takes a receive, its data go where the peer says.
            Some(verifier) if action == Action::Send => lock(verifier).arrived(
                flow.index,
                &flow.rx.region,
                flow.rx.offset(number),
                size as usize,
            ),
            _ => Ok(()),
        }
    }

    /// Lends the accounts.
    pub fn with<T>(&self, f: impl FnOnce(&mut Verifier) -> T) -> Option<T> {
        self.verifier
            .as_ref()
            .map(|verifier| f(&mut lock(verifier)))
    }
}

/// Returns how many messages make a megabyte or one list.
fn part(size: u32, list: u64) -> u64 {
    const BYTES: u64 = 1 << 20;
    (BYTES / u64::from(size.max(1)))
        .max(1)
        .next_multiple_of(list)
}

fn lock(verifier: &Mutex<Verifier>) -> std::sync::MutexGuard<'_, Verifier> {
    verifier.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_looked_at_by_the_megabyte_and_in_whole_lists() {
        assert_eq!(part(65_536, 1), 16);
        assert_eq!(part(8 << 20, 1), 1);
        assert_eq!(part(8 << 20, 8), 8);
        assert_eq!(part(65_536, 12), 24);
        assert_eq!(part(0, 1), 1 << 20);
        assert_eq!(Checks::default().at_once(65_536, 1), u64::MAX);
    }
}
