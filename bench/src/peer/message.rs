//! The fixed-size messages: version, page size, cache line, MTU, bandwidth report.

use core::fmt;
use core::ops::RangeInclusive;

use anyhow::{Result, anyhow, bail};
use roce_engine::verbs::Mtu;

use super::channel::DIFFERING;

/// The version that we announce: old enough to be spared the parameter negotiation of 6.28, new enough for all.
pub(super) const OUR_VERSION: &str = "6.20";
/// The oldest version that a stock peer accepts.
const OLDEST: f64 = 5.70;
/// Page sizes that a peer may name. They decide how much memory is registered.
pub(super) const PAGES: RangeInclusive<u32> = 256..=1 << 24;
/// Cache lines that a peer may name.
pub(super) const CACHE_LINES: RangeInclusive<u32> = 8..=4096;
/// The longest message of any test.
const MAX_SIZE: u64 = 1 << 31;
/// perftest's most iterations, on its most QPs.
const MAX_ITERATIONS: u64 = 1 << (32 + 14);
/// Bytes of the version message.
pub(super) const VERSION_LEN: usize = 16;

/// A peer's version of perftest's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    text: String,
    number: f64,
}

impl Version {
    /// Returns the number that decides what messages there are.
    pub const fn number(&self) -> f64 {
        self.number
    }

    /// Reads the version message.
    ///
    /// # Errors
    /// Says what came instead, or that it is too old.
    pub(super) fn parse(bytes: &[u8; VERSION_LEN]) -> Result<Self> {
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or(bytes);
        let text = text.escape_ascii().to_string();
        let number_len = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let number = text[..number_len].parse::<f64>().map_err(|_| {
            anyhow!("the peer's version reads \"{text}\": this is not a perftest peer (is the port right?)")
        })?;
        if number < OLDEST {
            bail!(
                "the peer speaks version {text}, older than {OLDEST:.2}: its messages differ; use perftest 4.5 or later there"
            );
        }
        Ok(Self { text, number })
    }

    /// Writes our version message.
    pub(super) fn ours() -> [u8; VERSION_LEN] {
        let mut bytes = [0; VERSION_LEN];
        bytes[..OUR_VERSION.len()].copy_from_slice(OUR_VERSION.as_bytes());
        bytes
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads a page size or cache line within its limits.
///
/// # Errors
/// Says which value is impossible.
pub(super) fn parse_size(what: &str, bytes: [u8; 4], limits: &RangeInclusive<u32>) -> Result<u32> {
    let value = u32::from_be_bytes(bytes);
    if limits.contains(&value) {
        Ok(value)
    } else {
        bail!(
            "the peer's {what} is {value} (bytes {}): outside of {} to {}, so the exchange is out of step; \
             compare both command lines",
            bytes.escape_ascii(),
            limits.start(),
            limits.end()
        )
    }
}

/// Reads the MTU message. A digit outside of 1 to 5 means that the peer has no opinion.
///
/// # Errors
/// Says what came instead of a digit and NUL.
pub(super) fn parse_mtu(bytes: [u8; 2]) -> Result<Option<Mtu>> {
    match bytes {
        [digit @ b'0'..=b'9', 0] => Ok(Mtu::from_code(digit - b'0')),
        _ => bail!(
            "the peer's MTU reads \"{}\" instead of one digit",
            bytes.escape_ascii()
        ),
    }
}

/// Writes the MTU message.
pub(super) const fn mtu_message(mtu: Mtu) -> [u8; 2] {
    [b'0' + mtu as u8, 0]
}

/// What an end measured, in the unit that it displays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BwReport {
    /// Bytes of a message.
    pub size: u64,
    /// Messages of all QPs.
    pub iterations: u64,
    /// Peak bandwidth.
    pub peak: f64,
    /// Average bandwidth.
    pub average: f64,
    /// Million messages per second.
    pub message_rate: f64,
}

impl BwReport {
    /// The names of the fields, one message each.
    pub(super) const FIELDS: [&'static str; 5] =
        ["size", "iterations", "peak", "average", "message rate"];

    /// Refuses what no end can have measured.
    ///
    /// # Errors
    /// Says what is impossible, and which options cause that.
    pub(super) fn is_possible(&self) -> Result<()> {
        if *self == Self::default() {
            bail!(
                "the peer reports that it moved nothing: its --reversed, -b or test differs from ours, so that both \
                 ends waited for the other"
            );
        }
        let figures = [self.peak, self.average, self.message_rate];
        let sizes = 1..=MAX_SIZE;
        if sizes.contains(&self.size)
            && self.iterations <= MAX_ITERATIONS
            && figures
                .iter()
                .all(|figure| figure.is_finite() && *figure >= 0.0)
        {
            return Ok(());
        }
        let text = self
            .to_messages()
            .concat()
            .iter()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | 0));
        bail!(
            "the peer's bandwidth report makes no sense (size {}, iterations {}){}: its {DIFFERING} or --reversed \
             differs from ours",
            self.size,
            self.iterations,
            if text { ", it is a QP handshake" } else { "" }
        )
    }

    /// Refuses the report of a peer that measured messages of `size` bytes, too, where only we were to send.
    ///
    /// # Errors
    /// Says so, and which options cause that.
    pub(super) fn is_idle_beside(&self, size: u64) -> Result<()> {
        let plausible = self.size == size
            && self.average > 0.0
            && self.message_rate > 0.0
            && self.iterations > 0
            && self.is_possible().is_ok();
        if plausible {
            bail!(
                "the peer sent messages as well, {} of {size} bytes: its -b or --reversed differs from ours",
                self.iterations
            );
        }
        Ok(())
    }

    /// Returns the five messages.
    pub(super) fn to_messages(self) -> [[u8; 8]; 5] {
        [
            self.size.to_be_bytes(),
            self.iterations.to_be_bytes(),
            self.peak.to_be_bytes(),
            self.average.to_be_bytes(),
            self.message_rate.to_be_bytes(),
        ]
    }

    /// Reads the five messages: any bits are a report, because a passive peer sends what is on its stack.
    pub(super) const fn from_messages(fields: [[u8; 8]; 5]) -> Self {
        Self {
            size: u64::from_be_bytes(fields[0]),
            iterations: u64::from_be_bytes(fields[1]),
            peak: f64::from_be_bytes(fields[2]),
            average: f64::from_be_bytes(fields[3]),
            message_rate: f64::from_be_bytes(fields[4]),
        }
    }
}

impl fmt::Display for BwReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            iterations,
            peak,
            average,
            message_rate,
        } = self;
        write!(
            f,
            "size {size} iterations {iterations} peak {peak:.2} average {average:.2} message rate {message_rate:.6}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Result<Version> {
        let mut bytes = [0; VERSION_LEN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Version::parse(&bytes)
    }

    #[test]
    fn versions_are_numbers_of_at_least_5_70() {
        assert_eq!(version("6.06").unwrap().to_string(), "6.06");
        assert!((version("6.29rc").unwrap().number() - 6.29).abs() < 1e-9);
        assert!(version("5.70").is_ok());
        let old = version("5.60").unwrap_err().to_string();
        assert!(old.contains("older than 5.70"), "{old}");
        for garbage in ["", "HTTP/1.1 400 Bad", "...", "6.2.0"] {
            let error = version(garbage).unwrap_err().to_string();
            assert!(error.contains("not a perftest peer"), "{garbage}: {error}");
        }
        assert_eq!(&Version::ours(), b"6.20\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(
            parse_size("page size", [0, 0, 16, 0], &PAGES).unwrap(),
            4096
        );
        let error = parse_size("page size", *b"abcd", &PAGES)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("page size") && error.contains("abcd"),
            "{error}"
        );
    }

    #[test]
    fn mtu_is_one_digit() {
        assert_eq!(parse_mtu(*b"3\0").unwrap(), Some(Mtu::B1024));
        assert_eq!(parse_mtu(*b"9\0").unwrap(), None);
        assert!(parse_mtu(*b"33").is_err());
        assert_eq!(&mtu_message(Mtu::B4096), b"5\0");
    }

    #[test]
    fn reports_survive_the_wire() {
        let report = BwReport {
            size: 65_536,
            iterations: 5000,
            peak: 1.5,
            average: 1.25,
            message_rate: 0.02,
        };
        let messages = report.to_messages();
        assert_eq!(messages[0], [0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(messages[2], [0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(BwReport::from_messages(messages), report);
    }
}
