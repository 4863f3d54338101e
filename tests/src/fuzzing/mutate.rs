//! Inputs from a seed: some are made of nothing, most are real ones that were damaged.

use fastrand::Rng;

/// Numbers at which lengths, sequence numbers and addresses change their meaning.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7f_ffff,
    0xff_ffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// Makes the input of a seed: the same from the same seed and corpus, at any time.
pub fn input_of(seed: u64, corpus: &[Vec<u8>], max_len: usize, out: &mut Vec<u8>) {
    let mut rng = Rng::with_seed(seed);
    out.clear();
    match rng.choice(corpus) {
        Some(start) if rng.u8(..) >= 32 => out.extend_from_slice(start),
        _ => {
            let len = rng.usize(..=max_len.min(256));
            out.extend(core::iter::repeat_with(|| rng.u8(..)).take(len));
        }
    }
    // Mostly few changes: what is damaged beyond recognition fails the first check.
    let changes = 1 << rng.u32(..5);
    for _ in 0..rng.u32(1..=changes) {
        change(&mut rng, corpus, out);
    }
    out.truncate(max_len);
}

fn change(rng: &mut Rng, corpus: &[Vec<u8>], bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.push(rng.u8(..));
        return;
    }
    let at = rng.usize(..bytes.len());
    let span = at..(at + 1 + rng.usize(..16)).min(bytes.len());
    match rng.u8(..10) {
        0 | 1 => bytes[at] ^= 1 << rng.u8(..8),
        2 => bytes[at] = rng.u8(..),
        3 => bytes[at] = bytes[at].wrapping_add(rng.u8(..5)).wrapping_sub(2),
        4 => write_edge(rng, &mut bytes[at..]),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(span)),
        7 => {
            let again = bytes[span].to_vec();
            drop(bytes.splice(at..at, again));
        }
        8 => {
            let new = [rng.u8(..), rng.u8(..), rng.u8(..)];
            let count = rng.usize(1..=new.len());
            drop(bytes.splice(at..at, new.into_iter().take(count)));
        }
        _ => {
            // The end of another input in place of this one's.
            let Some(other) = rng.choice(corpus).filter(|other| !other.is_empty()) else {
                return;
            };
            bytes.truncate(at);
            bytes.extend_from_slice(&other[rng.usize(..other.len())..]);
        }
    }
}

/// Writes an edge, or a neighbour, in one of the widths and byte orders that fields have.
fn write_edge(rng: &mut Rng, bytes: &mut [u8]) {
    let edge = EDGES[rng.usize(..EDGES.len())]
        .wrapping_add(rng.u64(..3))
        .wrapping_sub(1);
    let width = 1 << rng.usize(..4);
    let mut field = edge.to_le_bytes();
    let field = &mut field[..width];
    if rng.bool() {
        field.reverse();
    }
    for (byte, new) in bytes.iter_mut().zip(field) {
        *byte = *new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_input() {
        let corpus = [vec![1; 40], vec![2; 9]];
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let mut distinct = std::collections::BTreeSet::new();
        for seed in 0..1000 {
            input_of(seed, &corpus, 64, &mut a);
            input_of(seed, &corpus, 64, &mut b);
            assert_eq!(a, b, "seed {seed}");
            assert!(a.len() <= 64, "seed {seed}");
            distinct.insert(a.clone());
        }
        assert!(distinct.len() > 800, "{} of 1000 differ", distinct.len());
    }
}
