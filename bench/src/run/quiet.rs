//! When a receiver of an unreliable service has all that will come: nobody tells it what was lost.

use super::clock::{MILLISECOND, SECOND};

/// What is on its way when the peer says that it is done arrives within this.
const DRAIN: u64 = 50 * MILLISECOND;
/// How long after the last arrival a receiver waits for another one.
const AFTER_LAST: u64 = SECOND;
/// How long it waits for the first one: the peer may start late.
const BEFORE_FIRST: u64 = 5 * SECOND;

/// Watches for the end of what arrives.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    last: u64,
    any: bool,
    next_look: u64,
}

impl Quiet {
    /// Starts to wait for the first arrival.
    pub const fn new(now: u64) -> Self {
        Self {
            last: now,
            any: false,
            next_look: now,
        }
    }

    /// Notes an arrival.
    #[inline]
    pub const fn arrived(&mut self, now: u64) {
        self.last = now;
        self.any = true;
    }

    /// Returns whether anything has arrived.
    pub const fn has_begun(&self) -> bool {
        self.any
    }

    /// Returns whether nothing more is expected; `peer_spoke` asks whether the peer's closing message is there.
    #[inline]
    pub fn is_over(&mut self, now: u64, peer_spoke: impl FnOnce() -> bool) -> bool {
        let silent = now.saturating_sub(self.last);
        if silent < DRAIN || now < self.next_look {
            return false;
        }
        self.next_look = now + MILLISECOND;
        let bound = if self.any { AFTER_LAST } else { BEFORE_FIRST };
        silent > bound || peer_spoke()
    }
}

/// What came of what was sent, where the service does not see to it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arrivals {
    /// Messages that the peer sends by its options, which are ours.
    pub sent: u64,
    /// Messages that arrived.
    pub received: u64,
    /// The ends took turns, and a loss ended that: what is missing was never sent.
    pub stopped: bool,
}

impl Arrivals {
    /// Returns the line below the table, if anything was to arrive.
    pub fn line(&self, service: &str) -> Option<String> {
        let Self {
            sent,
            received,
            stopped,
        } = *self;
        if sent == 0 {
            return None;
        }
        if stopped {
            return Some(format!(
                "received {received} of {sent} messages: then one was lost, which {service} does not send again, and \
                 both ends wait for the other"
            ));
        }
        let lost = sent.saturating_sub(received);
        let more = if lost > 0 {
            format!(": {lost} lost, which {service} does not send again")
        } else {
            String::new()
        };
        Some(format!("received {received} of {sent} messages{more}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_ends_a_second_after_the_last_arrival() {
        let mut quiet = Quiet::new(0);
        assert!(!quiet.is_over(2 * SECOND, || false));
        quiet.arrived(3 * SECOND);
        assert!(!quiet.is_over(3 * SECOND + AFTER_LAST, || false));
        assert!(quiet.is_over(4 * SECOND + MILLISECOND, || false));
    }

    #[test]
    fn a_receiver_ends_on_the_peers_word_when_the_rest_is_in() {
        let mut quiet = Quiet::new(0);
        quiet.arrived(SECOND);
        assert!(!quiet.is_over(SECOND + DRAIN - 1, || true));
        assert!(quiet.is_over(SECOND + DRAIN, || true));
        // Without any arrival, too.
        assert!(Quiet::new(0).is_over(DRAIN, || true));
        assert!(Quiet::new(0).is_over(BEFORE_FIRST + 1, || false));
    }

    #[test]
    fn losses_are_counted_in_words() {
        let arrivals = Arrivals {
            sent: 1000,
            received: 998,
            stopped: false,
        };
        assert_eq!(
            arrivals.line("UD").as_deref(),
            Some("received 998 of 1000 messages: 2 lost, which UD does not send again")
        );
        let stopped = Arrivals {
            stopped: true,
            ..arrivals
        };
        let line = stopped.line("UC").unwrap();
        assert!(
            line.starts_with("received 998 of 1000 messages: then one was lost"),
            "{line}"
        );
        assert_eq!(Arrivals::default().line("UC"), None);
    }
}
