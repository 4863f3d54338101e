//! `--impair`: seeded faults between the engine and the wire.

use core::fmt;
use core::time::Duration;

/// How often each fault happens, as probabilities of 0 to 1, and what seeds the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairSpec {
    /// A packet is lost.
    pub drop: f64,
    /// A packet arrives twice.
    pub dup: f64,
    /// A packet is overtaken.
    pub reorder: f64,
    /// A bit of a packet flips.
    pub corrupt: f64,
    /// Each packet waits this long.
    pub delay: Duration,
    /// Seeds the choices.
    pub seed: u64,
}

/// Keys of the design that this version does not know.
const LATER: [&str; 2] = ["rate", "ce"];

impl ImpairSpec {
    /// Parses `drop=1%,delay=50us,seed=7`.
    ///
    /// # Errors
    /// Says which key or value is not understood, and what is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut spec = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            if part.contains('@') {
                return Err(format!(
                    "`{part}`: faults at an exact packet are not supported yet; use rates, as in drop=1%"
                ));
            }
            let (key, value) = part.split_once('=').ok_or_else(|| {
                format!("`{part}` is not KEY=VALUE; an example is drop=1%,delay=50us,seed=7")
            })?;
            if seen.contains(&key) {
                return Err(format!("`{key}` is given twice"));
            }
            seen.push(key);
            match key {
                "drop" => spec.drop = rate(key, value)?,
                "dup" => spec.dup = rate(key, value)?,
                "reorder" => spec.reorder = rate(key, value)?,
                "corrupt" => spec.corrupt = rate(key, value)?,
                "delay" => spec.delay = delay(value)?,
                "seed" => {
                    spec.seed = value
                        .parse()
                        .map_err(|_| format!("seed=`{value}` is not a whole number"))?;
                }
                _ if LATER.contains(&key) => {
                    return Err(format!(
                        "`{key}` is not supported yet; use drop, dup, reorder, corrupt, delay or seed"
                    ));
                }
                _ => {
                    return Err(format!(
                        "unknown key `{key}`; use drop, dup, reorder, corrupt, delay or seed"
                    ));
                }
            }
        }
        Ok(spec)
    }
}

/// Parses `1%` or `0.01`.
fn rate(key: &str, value: &str) -> Result<f64, String> {
    let (digits, scale) = value
        .strip_suffix('%')
        .map_or((value, 1.0), |digits| (digits, 100.0));
    digits
        .parse::<f64>()
        .map(|number| number / scale)
        .ok()
        .filter(|rate| (0.0..=1.0).contains(rate))
        .ok_or_else(|| format!("{key}=`{value}` is not a rate: give 0% to 100%, or 0 to 1"))
}

/// Parses `50us`, `1ms`, `0.5s`, `800ns`.
fn delay(value: &str) -> Result<Duration, String> {
    let wrong = || {
        format!(
            "delay=`{value}` is not a time of up to 10 s: give it with its unit, as in 50us or 2ms"
        )
    };
    let split = value
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(wrong)?;
    let (digits, unit) = value.split_at(split);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let seconds = digits.parse::<f64>().map_err(|_| wrong())? * scale;
    if (0.0..=10.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(wrong())
    }
}

impl fmt::Display for ImpairSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, rate) in [
            ("drop", self.drop),
            ("dup", self.dup),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ] {
            if rate > 0.0 {
                write!(f, "{key}={rate},")?;
            }
        }
        if !self.delay.is_zero() {
            write!(f, "delay={}ns,", self.delay.as_nanos())?;
        }
        write!(f, "seed={}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_times_and_seed_are_read() {
        let spec = ImpairSpec::parse("drop=1%,dup=0.5%,reorder=0.02,corrupt=0%,delay=50us,seed=7")
            .unwrap();
        assert!((spec.drop - 0.01).abs() < 1e-12);
        assert!((spec.dup - 0.005).abs() < 1e-12);
        assert!((spec.reorder - 0.02).abs() < 1e-12);
        assert_eq!(spec.delay, Duration::from_micros(50));
        assert_eq!(spec.seed, 7);
        assert_eq!(ImpairSpec::parse(&spec.to_string()), Ok(spec));
    }

    #[test]
    fn other_keys_are_refused_by_name() {
        for (text, word) in [
            ("rate=1gbit", "`rate` is not supported yet"),
            ("ce=1%", "`ce` is not supported yet"),
            ("drop@psn+5", "`drop@psn+5`"),
            ("drp=1%", "unknown key `drp`"),
            ("drop", "`drop` is not KEY=VALUE"),
            ("drop=101%", "drop=`101%`"),
            ("drop=nan", "drop=`nan`"),
            ("delay=5", "delay=`5`"),
            ("delay=5h", "delay=`5h`"),
            ("delay=99s", "delay=`99s`"),
            ("drop=1%,drop=2%", "`drop` is given twice"),
            ("seed=x", "seed=`x`"),
        ] {
            let error = ImpairSpec::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
