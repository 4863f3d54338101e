//! What a simulated path does to packets.

use core::num::NonZeroU64;
use core::time::Duration;

use crate::sim::rng::Rng;

/// How packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// None is.
    #[default]
    None,
    /// Each with this probability, independently.
    Uniform(f64),
    /// In bursts (Gilbert-Elliott): the path is in a good or in a bad state, and loses in the bad one.
    Burst {
        /// Probability, per packet, of going from good to bad.
        enter: f64,
        /// Probability, per packet, of going from bad to good.
        leave: f64,
        /// Probability of losing a packet in the bad state.
        loss: f64,
    },
}

/// A sender's bottleneck: a rate with a bounded queue before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bottleneck {
    /// Bits per second on the wire.
    pub bits_per_second: NonZeroU64,
    /// Bytes that may wait; a packet that doesn't fit is dropped (tail drop).
    pub queue_bytes: u64,
    /// Waiting bytes above which ECN-capable packets are marked CE.
    pub mark_bytes: u64,
}

impl Bottleneck {
    /// Returns how long `bytes` take on the wire.
    pub const fn time_of(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes.saturating_mul(8_000_000_000) / self.bits_per_second.get())
    }
}

/// The impairments of everything that one port sends. The default is a perfect wire without delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The delay of every packet.
    pub latency: Duration,
    /// A random delay on top, up to this; packets keep their order.
    pub jitter: Duration,
    /// How packets are lost.
    pub loss: Loss,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is late by up to `reorder_delay` and others overtake it.
    pub reorder: f64,
    /// How late.
    pub reorder_delay: Duration,
    /// Probability that one to three bits of BTH to ICRC are flipped (CRC-32 finds all of these).
    pub corrupt: f64,
    /// Probability that an ECN-capable packet is marked CE.
    pub mark: f64,
    /// The rate and its queue.
    pub bottleneck: Option<Bottleneck>,
}

impl Faults {
    /// Returns a path that only delays.
    pub fn delay(latency: Duration) -> Self {
        Self {
            latency,
            ..Self::default()
        }
    }

    /// Returns the same path (delay, rate) without anything that harms a packet: its queue has no end.
    pub fn healed(&self) -> Self {
        let endless = |bottleneck: Bottleneck| Bottleneck {
            queue_bytes: u64::MAX,
            mark_bytes: u64::MAX,
            ..bottleneck
        };
        Self {
            latency: self.latency,
            jitter: self.jitter,
            bottleneck: self.bottleneck.map(endless),
            ..Self::default()
        }
    }
}

/// The state of a path's loss model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossState {
    bad: bool,
}

impl LossState {
    pub(crate) fn loses(&mut self, loss: Loss, rng: &mut Rng) -> bool {
        match loss {
            Loss::None => false,
            Loss::Uniform(probability) => rng.chance(probability),
            Loss::Burst { enter, leave, loss } => {
                let flips = rng.chance(if self.bad { leave } else { enter });
                self.bad ^= flips;
                self.bad && rng.chance(loss)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_lose_neighbours() {
        let loss = Loss::Burst {
            enter: 0.01,
            leave: 0.25,
            loss: 1.0,
        };
        let (mut state, mut rng) = (LossState::default(), Rng::new(3));
        let lost: [bool; 20_000] = core::array::from_fn(|_| state.loses(loss, &mut rng));
        let total = lost.iter().filter(|lost| **lost).count();
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        // 0.01 / (0.01 + 0.25) of all are lost; a loss is followed by another three times of four.
        assert!((500..1100).contains(&total), "{total}");
        assert!(pairs * 10 > total * 6, "{pairs} of {total}");
    }

    #[test]
    fn a_bottleneck_takes_its_time() {
        let gigabit = Bottleneck {
            bits_per_second: NonZeroU64::new(1_000_000_000).unwrap(),
            queue_bytes: 0,
            mark_bytes: 0,
        };
        assert_eq!(gigabit.time_of(1250), Duration::from_micros(10));
    }
}
