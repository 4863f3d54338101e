//! The one reply that a responder owes: state, not packets, so newer ones replace older ones.

use roce_wire::{NakCode, Psn, Syndrome};

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

/// What a responder owes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    /// The turn in which an acknowledgement was first asked for.
    ack: Option<u64>,
    /// A NAK, which also acknowledges all before it.
    nak: Option<(Nak, Psn)>,
}

impl Due {
    /// Owes an acknowledgement of everything accepted so far; returns whether one was owed already.
    pub(crate) fn ask_ack(&mut self, turn: u64) -> bool {
        let merged = self.ack.is_some();
        self.ack.get_or_insert(turn);
        merged
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

    /// Returns the turn in which the owed acknowledgement was asked for.
    pub(crate) const fn ack_since(&self) -> Option<u64> {
        self.ack
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
        assert!(!due.ask_ack(3));
        assert!(due.ask_ack(4), "merged");
        due.ask_nak(Nak::Sequence, Psn::new(9));
        due.progressed();
        assert_eq!(due.nak(), None);
        assert_eq!(
            due.ack_since(),
            Some(3),
            "it has waited since it was first asked for"
        );
        due.said();
        assert!(!due.is_any());
    }

    #[test]
    fn syndromes_are_those_of_the_wire() {
        assert_eq!(Nak::Sequence.syndrome().to_raw(), 0x60);
        assert_eq!(Nak::Rnr { timer: 12 }.syndrome().to_raw(), 0x2c);
        assert_eq!(Nak::Fatal(NakCode::RemoteAccess).syndrome().to_raw(), 0x62);
    }
}
