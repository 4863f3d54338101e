//! `--verify`: compares what arrives with what must have been sent, message by message.

use anyhow::{Result, bail};
use roce_engine::verbs::{Psn, Qpn, Region};

use super::buffers::Lane;
use super::pattern::{self, Mismatch, Pattern};
use super::ring::Ring;
use crate::spec::AtomicKind;

/// Whose data a QP's peer sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    /// Nothing has arrived yet.
    Unknown,
    /// The pattern.
    Ours,
    /// Something else from the start: stock perftest, or this program without `--verify`.
    Foreign,
}

/// One QP's account.
#[derive(Clone, Debug)]
struct Account {
    qpn: Qpn,
    // What the patterns of this QP's peer are made from.
    remote_psn: Psn,
    standing: Standing,
    // The number of the message that comes next if none is lost.
    next: u64,
    messages: u64,
    checked: u64,
    bytes: u64,
    // For atomics: the value that the next one on each place must find.
    values: Vec<Option<u64>>,
}

/// The accounts of all QPs of a run.
#[derive(Clone, Debug)]
pub struct Verifier {
    accounts: Vec<Account>,
    // How many messages in a row may be lost.
    gap: u64,
    // Whether a message may come after a later one, or twice.
    unordered: bool,
    // How many did.
    behind: u64,
}

impl Verifier {
    /// Opens an account for each QP: its number and its peer's first PSN.
    pub fn new(qps: impl IntoIterator<Item = (Qpn, Psn)>) -> Self {
        let accounts = qps.into_iter().map(|(qpn, remote_psn)| Account {
            qpn,
            remote_psn,
            standing: Standing::Unknown,
            next: 0,
            messages: 0,
            checked: 0,
            bytes: 0,
            values: Vec::new(),
        });
        Self {
            accounts: accounts.collect(),
            gap: 0,
            unordered: false,
            behind: 0,
        }
    }

    /// Lets up to `gap` messages in a row be missing: what arrives must be one of the peer's later ones.
    pub const fn with_gaps(mut self, gap: u64) -> Self {
        self.gap = gap;
        self
    }

    /// Lets messages overtake each other and come twice, too, as the network may do with datagrams.
    pub const fn with_any_order(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Starts a measurement, before which `before` messages went through each QP.
    pub fn begin(&mut self, before: u64) {
        if self.gap > 0 {
            for account in &mut self.accounts {
                account.next = account.next.max(before);
            }
        }
    }

    /// Checks the next message that QP `qp`'s peer sent or wrote: `len` bytes at `offset`.
    ///
    /// # Errors
    ///
    /// They are not what the peer sent.
    pub fn arrived(&mut self, qp: usize, region: &Region, offset: usize, len: usize) -> Result<()> {
        let account = &mut self.accounts[qp];
        let psn = account.remote_psn;
        if self.gap > 0 && account.standing != Standing::Foreign {
            // Messages of less than a word look alike: one may have been taken for a later one.
            let back = if len < 8 || self.unordered {
                account.next.min(self.gap)
            } else {
                0
            };
            let later = account.next..=account.next + self.gap;
            let earlier = (account.next - back..account.next).rev();
            let found = later
                .chain(earlier)
                .find(|number| Pattern::message(psn, *number).starts(region, offset, len));
            let late = found.filter(|number| self.unordered && len >= 8 && *number < account.next);
            if let Some(number) = late {
                self.behind += 1;
                let pattern = Pattern::message(psn, number);
                return account.check(pattern, 0, region, offset, len);
            }
            account.next = found.unwrap_or(account.next);
        }
        let pattern = Pattern::message(psn, account.next);
        account.next += 1;
        account.check(pattern, 0, region, offset, len)
    }

    /// Checks the next message that QP `qp` read: `len` bytes at `offset`, from `first` of the peer's memory.
    ///
    /// # Errors
    ///
    /// They are not what the peer's memory holds.
    pub fn fetched(
        &mut self,
        qp: usize,
        first: u64,
        region: &Region,
        offset: usize,
        len: usize,
    ) -> Result<()> {
        let account = &mut self.accounts[qp];
        let pattern = Pattern::memory(account.remote_psn);
        account.check(pattern, first, region, offset, len)
    }

    /// Checks a message of write-lat: it starts as our own does, since both ends send the same bytes. `twin` is
    /// where ours is. The counter in the last byte was checked by waiting for it, and is left out.
    ///
    /// # Errors
    ///
    /// It differs.
    pub fn alike(
        &mut self,
        qp: usize,
        region: &Region,
        offset: usize,
        twin: (&Region, usize),
        len: usize,
    ) -> Result<()> {
        let account = &mut self.accounts[qp];
        let number = account.messages;
        account.messages += 1;
        if let Some((at, expected, found)) = pattern::difference(region, offset, twin, len) {
            bail!(
                "verify: QPN {}: message {number} is damaged at offset {at}: expected {expected:#04x}, \
                 found {found:#04x}",
                account.qpn
            );
        }
        pattern::poison(region, offset, len);
        account.checked += 1;
        account.bytes += len as u64;
        Ok(())
    }

    /// Checks what an atomic of QP `qp` found at the peer: each addition is there once, a swap of nothing
    /// changes nothing. The first value of a place is the start.
    ///
    /// # Errors
    ///
    /// An atomic was lost or executed twice.
    pub fn atomic(
        &mut self,
        qp: usize,
        kind: AtomicKind,
        walk: Ring,
        number: u64,
        lane: &Lane,
    ) -> Result<()> {
        let account = &mut self.accounts[qp];
        let mut bytes = [0; 8];
        lane.region.read(lane.offset(number), &mut bytes);
        let found = u64::from_ne_bytes(bytes);
        let place = walk.offset(number);
        let index = (place / 8) as usize;
        if account.values.len() <= index {
            account.values.resize(index + 1, None);
        }
        let expected = account.values[index].unwrap_or(found);
        account.messages += 1;
        if found != expected {
            bail!(
                "verify: QPN {}: atomic {number} at offset {place} of the peer's memory found \
                 {found:#018x} where {expected:#018x} must be: an atomic was lost or executed twice",
                account.qpn
            );
        }
        account.checked += 1;
        account.bytes += 8;
        account.values[index] = Some(match kind {
            AtomicKind::FetchAdd => found.wrapping_add(1),
            AtomicKind::CompareSwap => found,
        });
        Ok(())
    }

    /// Checks at the target of atomics that exactly `executed` additions of 1 lie between two sums.
    ///
    /// # Errors
    ///
    /// The sums differ by something else.
    pub fn total(
        &mut self,
        qp: usize,
        kind: AtomicKind,
        executed: u64,
        before: u64,
        after: u64,
    ) -> Result<()> {
        let account = &mut self.accounts[qp];
        let expected = match kind {
            AtomicKind::FetchAdd => before.wrapping_add(executed),
            AtomicKind::CompareSwap => before,
        };
        account.messages += executed;
        if after != expected {
            bail!(
                "verify: QPN {}: the sum of the counters is {after:#x} after {executed} atomics, it must \
                 be {expected:#x}",
                account.qpn
            );
        }
        account.checked += executed;
        Ok(())
    }

    /// Returns the bytes-independent result in one line: how many messages were checked, of how many.
    pub fn summary(&self) -> String {
        let messages: u64 = self.accounts.iter().map(|a| a.messages).sum();
        let checked: u64 = self.accounts.iter().map(|a| a.checked).sum();
        let foreign = self
            .accounts
            .iter()
            .any(|account| account.standing == Standing::Foreign);
        let mut line = format!("verify: {checked} of {messages} messages checked");
        if self.behind > 0 {
            line.push_str(&format!(
                ", {} of them behind a later one or twice",
                self.behind
            ));
        }
        if foreign {
            line.push_str(
                "; not checkable with this peer: it does not send roce's pattern (stock perftest, or roce \
                 without --verify)",
            );
        }
        line
    }

    /// Returns how many messages were looked at.
    pub fn messages(&self) -> u64 {
        self.accounts.iter().map(|account| account.messages).sum()
    }

    /// Returns how many bytes were compared and right.
    pub fn bytes(&self) -> u64 {
        self.accounts.iter().map(|account| account.bytes).sum()
    }
}

impl Account {
    fn check(
        &mut self,
        pattern: Pattern,
        first: u64,
        region: &Region,
        offset: usize,
        len: usize,
    ) -> Result<()> {
        let number = self.messages;
        self.messages += 1;
        if self.standing == Standing::Foreign {
            return Ok(());
        }
        match pattern.take(first, region, offset, len) {
            Ok(()) => {
                self.standing = Standing::Ours;
                self.checked += 1;
                self.bytes += len as u64;
                Ok(())
            }
            Err(Mismatch {
                nothing_fits: true, ..
            }) if self.standing == Standing::Unknown => {
                self.standing = Standing::Foreign;
                Ok(())
            }
            Err(mismatch) => bail!(
                "verify: QPN {}: message {number} ({len} bytes) is damaged at offset {}: expected \
                 {:#04x}, found {:#04x}",
                self.qpn,
                mismatch.offset,
                mismatch.expected,
                mismatch.found
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verifier() -> Verifier {
        Verifier::new([(Qpn::new(0x11), Psn::new(3))])
    }

    #[test]
    fn messages_are_checked_in_their_order() {
        let region = Region::zeroed(4096, 64).unwrap();
        let mut verifier = verifier();
        for number in 0..3 {
            Pattern::message(Psn::new(3), number).fill(0, &region, 64, 100);
            verifier.arrived(0, &region, 64, 100).unwrap();
        }
        assert_eq!(verifier.summary(), "verify: 3 of 3 messages checked");
        // Message 3 again instead of 4.
        Pattern::message(Psn::new(3), 2).fill(0, &region, 64, 100);
        let failure = verifier.arrived(0, &region, 64, 100).unwrap_err();
        assert!(
            failure.to_string().contains("QPN 0x000011: message 3"),
            "{failure}"
        );
        assert!(failure.to_string().contains("offset 0"), "{failure}");
    }

    #[test]
    fn a_peer_without_the_pattern_is_not_called_damaged() {
        let region = Region::zeroed(4096, 64).unwrap();
        let mut verifier = verifier();
        for _ in 0..2 {
            region.fill(0, 512, 0x77);
            verifier.arrived(0, &region, 0, 512).unwrap();
        }
        let line = verifier.summary();
        assert!(
            line.starts_with("verify: 0 of 2 messages checked; not checkable"),
            "{line}"
        );
    }

    #[test]
    fn damage_in_the_first_message_is_found() {
        let region = Region::zeroed(4096, 64).unwrap();
        let mut verifier = verifier();
        Pattern::message(Psn::new(3), 0).fill(0, &region, 0, 512);
        region.store(17, region.load(17) ^ 0x80);
        let failure = verifier.arrived(0, &region, 0, 512).unwrap_err();
        assert!(failure.to_string().contains("offset 17"), "{failure}");
    }

    #[test]
    fn datagrams_may_come_in_any_order_and_twice_but_not_damaged() {
        let region = Region::zeroed(4096, 64).unwrap();
        let mut verifier = verifier().with_gaps(100).with_any_order();
        for number in [0, 2, 1, 1, 5, 3] {
            Pattern::message(Psn::new(3), number).fill(0, &region, 64, 100);
            verifier.arrived(0, &region, 64, 100).unwrap();
        }
        assert_eq!(
            verifier.summary(),
            "verify: 6 of 6 messages checked, 3 of them behind a later one or twice"
        );
        Pattern::message(Psn::new(3), 4).fill(0, &region, 64, 100);
        region.store(100, region.load(100) ^ 1);
        assert!(verifier.arrived(0, &region, 64, 100).is_err());
        // A connection keeps the order: there, an earlier message is damage.
        let mut ordered = self::verifier().with_gaps(100);
        for (number, right) in [(0, true), (2, true), (1, false)] {
            Pattern::message(Psn::new(3), number).fill(0, &region, 64, 100);
            assert_eq!(ordered.arrived(0, &region, 64, 100).is_ok(), right);
        }
    }

    #[test]
    fn sums_of_atomics_are_exact() {
        let mut verifier = verifier();
        let add = AtomicKind::FetchAdd;
        verifier.total(0, add, 5, u64::MAX - 1, 3).unwrap();
        assert!(verifier.total(0, add, 5, 0, 4).is_err());
        assert!(
            verifier
                .total(0, AtomicKind::CompareSwap, 5, 9, 10)
                .is_err()
        );
    }
}
