//! The one reply that a responder owes: state, not packets, so newer ones replace older ones.

use roce_wire::{Msn, NakCode, Psn, Syndrome};

/// A NAK that waits to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Nak {
    /// Packets are missing from the expected PSN on.
    Sequence,
    /// No receive was posted.
    Rnr {
        /// The delay code.
        timer: u8,
    },
    /// The request was refused and the QP is in error.
    Fatal(NakCode),
}

impl Nak {
    /// Returns the syndrome that says so.
    pub(crate) const fn syndrome(self) -> Syndrome {
        match self {
            Self::Sequence => Syndrome::Nak(NakCode::SequenceError),
            Self::Rnr { timer } => Syndrome::Rnr { timer },
            Self::Fatal(code) => Syndrome::Nak(code),
        }
    }
}

/// An acknowledgement that waits to be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Ack {
    /// The turn in which it was first asked for.
    pub(crate) since: u64,
    /// The newest packet that asked.
    pub(crate) psn: Psn,
    /// Messages completed by then.
    pub(crate) msn: Msn,
}

/// What a responder owes.
///
/// An acknowledgement names the newest packet that asked for one, not the newest that has arrived. IBA allows
/// both, but rxe's requester sleeps for ever if a wake-up of its own gets lost (`rxe_skb_tx_dtor`) while nothing
/// is unacknowledged: its ack timer is what wakes it then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// An acknowledgement.
    ack: Option<Ack>,
    /// A NAK, which also acknowledges all before it.
    nak: Option<(Nak, Psn)>,
    /// The newest packet that ever asked for an acknowledgement, and the messages complete with it.
    newest: Option<(Psn, Msn)>,
}

impl Due {
    /// Owes an acknowledgement up to `psn`, with which `msn` messages are complete; returns whether one was owed
    /// already.
    pub(crate) fn ask_ack(&mut self, turn: u64, psn: Psn, msn: Msn) -> bool {
        let before = self.ack;
        let since = before.map_or(turn, |ack| ack.since);
        self.ack = Some(Ack { since, psn, msn });
        self.newest = Some((psn, msn));
        before.is_some()
    }

    /// As [`Self::ask_ack`] for a packet that was accepted before; `psn` and `msn` are the newest accepted.
    ///
    /// It names the newest packet that asked, too, unless this one is newer and asks: a requester that repeats what
    /// is still under way is not told of the middle of a message, where rxe of Linux 6.1 loses its place
    /// (`retry_first_write_send`).
    pub(crate) fn ask_ack_again(
        &mut self,
        turn: u64,
        asks: Option<Psn>,
        psn: Psn,
        msn: Msn,
    ) -> bool {
        let known = self
            .newest
            .filter(|(newest, _)| asks.is_none_or(|asks| !newest.is_before(asks)));
        let (psn, msn) = known.unwrap_or((psn, msn));
        self.ask_ack(turn, psn, msn)
    }

    /// Owes a NAK of the packet with this PSN.
    pub(crate) const fn ask_nak(&mut self, nak: Nak, psn: Psn) {
        self.nak = Some((nak, psn));
    }

    /// The expected packet came after all: a NAK that was not sent yet would be wrong.
    pub(crate) const fn progressed(&mut self) {
        self.nak = None;
    }

    /// Returns the NAK that is owed, and its PSN.
    pub(crate) const fn nak(&self) -> Option<(Nak, Psn)> {
        self.nak
    }

    /// Returns the acknowledgement that is owed.
    pub(crate) const fn ack(&self) -> Option<Ack> {
        self.ack
    }

    /// The packet with this PSN was answered, which acknowledges all before it.
    pub(crate) fn answered(&mut self, psn: Psn) {
        if self.nak.is_none() && self.ack.is_some_and(|ack| !psn.is_before(ack.psn)) {
            self.ack = None;
        }
    }

    /// Returns whether anything is owed.
    pub(crate) const fn is_any(&self) -> bool {
        self.ack.is_some() || self.nak.is_some()
    }

    /// Everything owed was said: a NAK acknowledges too.
    pub(crate) const fn said(&mut self) {
        self.ack = None;
        self.nak = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_takes_an_unsent_nak_back_but_not_the_ack() {
        let mut due = Due::default();
        let one = Msn::new(1);
        assert!(!due.ask_ack(3, Psn::new(7), one));
        assert!(due.ask_ack(4, Psn::new(8), one.next()), "merged");
        due.ask_nak(Nak::Sequence, Psn::new(9));
        due.progressed();
        assert_eq!(due.nak(), None);
        let newest = Ack {
            since: 3,
            psn: Psn::new(8),
            msn: Msn::new(2),
        };
        assert_eq!(
            due.ack(),
            Some(newest),
            "it has waited since it was first asked for"
        );
        due.said();
        assert!(!due.is_any());
    }

    #[test]
    fn an_answer_acknowledges_what_lies_before_it_only() {
        let mut due = Due::default();
        due.ask_ack(1, Psn::new(8), Msn::new(1));
        due.answered(Psn::new(7));
        assert!(due.is_any());
        due.answered(Psn::new(8));
        assert!(!due.is_any());
    }

    #[test]
    fn syndromes_are_those_of_the_wire() {
        assert_eq!(Nak::Sequence.syndrome().to_raw(), 0x60);
        assert_eq!(Nak::Rnr { timer: 12 }.syndrome().to_raw(), 0x2c);
        assert_eq!(Nak::Fatal(NakCode::RemoteAccess).syndrome().to_raw(), 0x62);
    }
}
