//! Values of options: sizes, times, names.

use core::time::Duration;

use roce_engine::verbs::Mtu;

use crate::spec::{AtomicKind, Trace};

/// The largest message that a verbs request can have in perftest.
const LARGEST: u64 = (1 << 31) - 1;

/// Reads a message size, `64`, `4K` or `1M`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    bytes(text)
        .ok()
        .filter(|size| (1..=LARGEST).contains(size))
        .ok_or_else(|| format!("not a size of 1 to {LARGEST} bytes (K and M are 2^10 and 2^20)"))
}

/// Reads a byte count with an optional suffix.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        _ => (text, 0),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|count| count.checked_mul(1 << shift))
        .ok_or_else(|| "not a byte count, as in 64, 4K or 1M".to_owned())
}

/// Reads seconds, whole or with a fraction, up to a year.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| (0.0..=31_536_000.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "not a number of seconds".to_owned())
}

/// Reads a path MTU in bytes.
pub(super) fn mtu(text: &str) -> Result<Mtu, String> {
    text.parse()
        .ok()
        .and_then(Mtu::from_bytes)
        .ok_or_else(|| "path MTUs are 256, 512, 1024, 2048 and 4096".to_owned())
}

/// Reads the name of an atomic.
pub(super) fn atomic(text: &str) -> Result<AtomicKind, String> {
    [AtomicKind::FetchAdd, AtomicKind::CompareSwap]
        .into_iter()
        .find(|kind| kind.name() == text)
        .ok_or_else(|| "atomics are FETCH_AND_ADD and CMP_AND_SWAP".to_owned())
}

/// Reads a transport service: reliable connections are the one there is.
pub(super) fn service(text: &str) -> Result<(), String> {
    match text {
        "RC" => Ok(()),
        "UC" | "UD" | "XRC" | "DC" | "SRD" => Err(format!("{text} is not supported yet; use RC")),
        _ => Err("transport services are RC (and, in perftest, UC, UD, XRC, DC, SRD)".to_owned()),
    }
}

/// Reads what to trace, comma-separated.
pub(super) fn trace(text: &str) -> Result<Trace, String> {
    let mut trace = Trace::default();
    for what in text.split(',') {
        match what {
            "exchange" => trace.exchange = true,
            "packets" => trace.packets = true,
            "cm" => {
                return Err(
                    "cm is not supported yet, as there is no RDMA-CM; use exchange or packets"
                        .to_owned(),
                );
            }
            _ => return Err(format!("`{what}` is not traced; use exchange or packets")),
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_and_limits() {
        assert_eq!(size("64"), Ok(64));
        assert_eq!(size("4K"), Ok(4096));
        assert_eq!(size("8M"), Ok(1 << 23));
        assert_eq!(size("2147483647"), Ok(LARGEST));
        for wrong in ["0", "2147483648", "2G", "", "K", "-1", "1.5K", "1KK", "64é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert!(bytes("18446744073709551615K").is_err());
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "-1", "nan", "inf", "1e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_perftests() {
        assert_eq!(mtu("1024"), Ok(Mtu::B1024));
        assert!(mtu("1500").is_err());
        assert_eq!(atomic("CMP_AND_SWAP"), Ok(AtomicKind::CompareSwap));
        assert!(atomic("cas").is_err());
        assert!(
            service("UD")
                .unwrap_err()
                .contains("UD is not supported yet; use RC")
        );
        assert!(trace("exchange,packets").is_ok_and(|trace| trace.exchange && trace.packets));
        assert!(trace("cm").is_err());
    }
}
