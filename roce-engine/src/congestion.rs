//! The in-flight window: how many packets may be unacknowledged.
//!
//! A default socket buffer holds a few hundred packets while a default perftest run wants 2,048 in
//! flight, so the sender limits itself. The window starts small, grows while nothing is lost and halves
//! on loss. A congestion controller plugs in here later.

/// Packets that always may be in flight, whatever was lost.
const MIN: u32 = 4;

/// A window in packets.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    packets: u32,
    threshold: u32,
    max: u32,
    acked: u32,
}

impl Window {
    /// Makes a window that starts at `start` packets and never exceeds `max`.
    pub(crate) fn new(start: u32, max: u32) -> Self {
        let max = max.max(MIN);
        Self {
            packets: start.clamp(MIN, max),
            threshold: max,
            max,
            acked: 0,
        }
    }

    /// Returns how many packets may be in flight.
    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    /// Grows after `acked` packets were acknowledged of `in_flight` ones.
    pub(crate) const fn on_ack(&mut self, acked: u32, in_flight: u32) {
        // A window that isn't used tells nothing about what the path holds.
        if self.packets >= self.max || in_flight.saturating_mul(2) < self.packets {
            return;
        }
        if self.packets < self.threshold {
            self.packets += acked;
        } else {
            self.acked += acked;
            if self.acked >= self.packets {
                self.acked -= self.packets;
                self.packets += 1;
            }
        }
        if self.packets > self.max {
            self.packets = self.max;
        }
    }

    /// Halves after a loss.
    pub(crate) const fn on_loss(&mut self) {
        let half = self.packets / 2;
        self.packets = if half < MIN { MIN } else { half };
        self.threshold = self.packets;
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_while_used_then_halves_then_adds_one_a_window() {
        let mut window = Window::new(64, 512);
        window.on_ack(64, 64);
        assert_eq!(window.packets(), 128);
        window.on_ack(10, 5);
        assert_eq!(window.packets(), 128, "an unused window does not grow");
        window.on_loss();
        assert_eq!(window.packets(), 64);
        window.on_ack(64, 64);
        assert_eq!(window.packets(), 65);
        for _ in 0..20 {
            window.on_loss();
        }
        assert_eq!(window.packets(), MIN);
    }

    #[test]
    fn it_never_exceeds_its_limit() {
        let mut window = Window::new(64, 100);
        window.on_ack(1000, 64);
        assert_eq!(window.packets(), 100);
    }
}
