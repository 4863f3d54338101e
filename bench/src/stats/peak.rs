//! The peak bandwidth: the stretch of messages with the least time per message, from the posting of its first to
//! the completion of its last.
//!
//! perftest compares all pairs. The same minimum is found here by guessing it and asking, in one pass, whether any
//! stretch is faster than the guess; the fastest one found is the next guess. A handful of passes suffice.

/// What is known about each message.
#[derive(Clone, Copy, Debug)]
pub struct PeakInput<'a> {
    /// When each message was posted, in order.
    pub posted: &'a [u64],
    /// How many messages were complete, and when, in order.
    pub completed: &'a [(u64, u64)],
    /// Every how many messages a stretch may start: the length of a post list.
    pub step: usize,
}

/// Passes after which the guess is good enough: each at least halves what is left to gain in practice.
const PASSES: usize = 64;

/// Returns the least nanoseconds per message of any stretch, if there is a stretch that took time.
pub fn peak_nanos_per_message(input: PeakInput<'_>) -> Option<f64> {
    let first = *input.posted.first()?;
    let &(count, last) = input.completed.last()?;
    let mut best = ratio(last.checked_sub(first)?, count)?;
    for _ in 0..PASSES {
        match faster_than(best, &input) {
            Some(faster) if faster < best => best = faster,
            _ => break,
        }
    }
    (best > 0.0).then_some(best)
}

/// Returns the time per message of the stretch that undercuts `guess` most, if any does.
fn faster_than(guess: f64, input: &PeakInput<'_>) -> Option<f64> {
    // A stretch from message i to completion (c, t) is faster if t - c * guess < posted[i] - i * guess.
    let mut starts = input
        .posted
        .iter()
        .zip(0_u64..)
        .step_by(input.step.max(1))
        .peekable();
    let mut start: Option<(f64, u64, u64)> = None;
    let mut gain = 0.0;
    let mut found = None;
    for &(count, time) in input.completed {
        while let Some(&(&posted, index)) = starts.peek()
            && index < count
        {
            let key = guess.mul_add(-(index as f64), posted as f64);
            if start.is_none_or(|(best, ..)| key > best) {
                start = Some((key, posted, index));
            }
            starts.next();
        }
        let Some((key, posted, index)) = start else {
            continue;
        };
        let this = key - guess.mul_add(-(count as f64), time as f64);
        if this > gain {
            gain = this;
            found = ratio(time.checked_sub(posted)?, count - index);
        }
    }
    found
}

fn ratio(nanos: u64, messages: u64) -> Option<f64> {
    (messages > 0).then(|| nanos as f64 / messages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// perftest's way: all pairs.
    fn all_pairs(input: &PeakInput<'_>) -> f64 {
        let mut best = f64::MAX;
        for (index, posted) in input.posted.iter().enumerate().step_by(input.step) {
            for &(count, time) in input.completed {
                if count as usize > index {
                    let messages = count - index as u64;
                    best = best.min((time - posted) as f64 / messages as f64);
                }
            }
        }
        best
    }

    #[test]
    fn equals_all_pairs_on_random_runs() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for case in 0..300 {
            let moderation = 1 + random(7);
            let list = if case % 3 == 0 { moderation } else { 1 };
            let total = moderation * (1 + random(60));
            let depth = (moderation + random(20)) as usize;
            let (mut posted, mut completed, mut now) = (Vec::new(), Vec::new(), 1000);
            for message in 0..total {
                posted.push(now);
                now += random(30);
                if (message + 1) % moderation == 0 {
                    let jitter = if random(10) == 0 { 5000 } else { 0 };
                    completed.push((message + 1, now + depth as u64 * 10 + jitter));
                    now += jitter;
                }
            }
            let input = PeakInput {
                posted: &posted,
                completed: &completed,
                step: list as usize,
            };
            let (fast, slow) = (peak_nanos_per_message(input).unwrap(), all_pairs(&input));
            assert!(
                (fast - slow).abs() < 1e-6 * slow,
                "case {case}: {fast} {slow}"
            );
        }
    }

    #[test]
    fn nothing_completed_has_no_peak() {
        let empty = PeakInput {
            posted: &[1],
            completed: &[],
            step: 1,
        };
        assert_eq!(peak_nanos_per_message(empty), None);
    }
}
