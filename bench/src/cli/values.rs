//! Values of options: sizes, times, names.

use core::time::Duration;

use backend_afxdp::Mode;
use roce_engine::verbs::{Mtu, Service};

use crate::spec::{AtomicKind, Form, RateUnit, Trace};

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

/// Reads a file's name.
pub(super) fn file(text: &str) -> Result<std::path::PathBuf, String> {
    match text {
        "" => Err("a file needs a name".to_owned()),
        "-" => Err("the standard output has the table; name a file".to_owned()),
        name => Ok(name.into()),
    }
}

/// Reads seconds, whole or with a fraction, up to a year.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|seconds| (0.0..=31_536_000.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "not a number of seconds".to_owned())
}

/// Reads seconds, as [`seconds`], of which there must be some.
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("must be more than 0 seconds".to_owned()),
        some => Ok(some),
    }
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

/// Reads a transport service.
pub(super) fn service(text: &str) -> Result<Service, String> {
    match text {
        "RC" => Ok(Service::Rc),
        "UC" => Ok(Service::Uc),
        "UD" => Ok(Service::Ud),
        "XRC" => Err("XRC is not supported yet; use RC with --use-srq".to_owned()),
        "DC" | "SRD" => Err(format!(
            "{text} is a service of one vendor's adapters; use RC, UC or UD"
        )),
        _ => Err("transport services are RC, UC and UD".to_owned()),
    }
}

/// Reads a number that is not negative.
pub(super) fn amount(text: &str) -> Result<f64, String> {
    text.parse::<f64>()
        .ok()
        .filter(|amount| (0.0..=1e15).contains(amount))
        .ok_or_else(|| "not a number from 0 up".to_owned())
}

/// Reads a rate, which leaves something to be sent.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    amount(text)
        .ok()
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| "not a number above 0".to_owned())
}

/// Reads the unit of a rate limit.
pub(super) fn rate_unit(text: &str) -> Result<RateUnit, String> {
    RateUnit::ALL
        .into_iter()
        .find(|unit| text.chars().eq([unit.letter()]))
        .ok_or_else(|| "units are M (MiB/s), g (Gb/s) and p (messages per second)".to_owned())
}

/// Reads what of a result is printed.
pub(super) fn form(text: &str) -> Result<Form, String> {
    Form::ALL
        .into_iter()
        .find(|form| form.name() == Some(text))
        .ok_or_else(|| "figures are bandwidth, message_rate and latency".to_owned())
}

/// Reads a flow label, decimal or with 0x.
pub(super) fn flow_label(text: &str) -> Result<u32, String> {
    let label = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    label
        .ok()
        .filter(|label| *label < 1 << 20)
        .ok_or_else(|| "flow labels are 0 to 1048575, 20 bits".to_owned())
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

/// Reads where the XDP program runs.
pub(super) fn xdp_mode(text: &str) -> Result<Mode, String> {
    match text {
        "driver" => Ok(Mode::Driver),
        "generic" => Ok(Mode::Generic),
        _ => Err("modes are driver and generic".to_owned()),
    }
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
    fn amounts_and_labels_are_bounded() {
        assert_eq!(amount("1.5"), Ok(1.5));
        for wrong in ["-1", "nan", "inf", "1e16", ""] {
            assert!(amount(wrong).is_err(), "{wrong}");
        }
        assert_eq!(flow_label("0xfffff"), Ok(0xf_ffff));
        assert_eq!(flow_label("17"), Ok(17));
        for wrong in ["1048576", "-1", "0x", "x"] {
            assert!(flow_label(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "-1", "nan", "inf", "1e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nothing_is_neither_a_span_nor_a_file() {
        assert_eq!(span("0.001"), Ok(Duration::from_millis(1)));
        assert!(span("0").is_err_and(|text| text.contains("more than 0")));
        assert_eq!(file("-x"), Ok("-x".into()));
        assert!(file("").is_err());
        assert!(file("-").is_err_and(|text| text.contains("standard output")));
    }

    #[test]
    fn names_are_perftests() {
        assert_eq!(mtu("1024"), Ok(Mtu::B1024));
        assert!(mtu("1500").is_err());
        assert_eq!(atomic("CMP_AND_SWAP"), Ok(AtomicKind::CompareSwap));
        assert!(atomic("cas").is_err());
        assert_eq!(service("UD"), Ok(Service::Ud));
        assert!(service("XRC").unwrap_err().contains("use RC"));
        assert!(service("ud").is_err());
        assert_eq!(xdp_mode("driver"), Ok(Mode::Driver));
        assert!(xdp_mode("native").is_err());
        assert_eq!(rate_unit("p"), Ok(RateUnit::Messages));
        assert!(rate_unit("pp").is_err());
        assert_eq!(form("message_rate"), Ok(Form::MessageRate));
        assert!(form("full").is_err());
        assert!(trace("exchange,packets").is_ok_and(|trace| trace.exchange && trace.packets));
        assert!(trace("cm").is_err());
    }
}
