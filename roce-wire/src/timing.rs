//! Coded times: the delays and timeouts that the wire carries in five bits.

use core::time::Duration;

/// Returns the delay that an RNR NAK's five-bit code (or a QP's `min_rnr_timer`) asks for.
///
/// Higher bits of `code` are ignored.
pub const fn rnr_delay(code: u8) -> Duration {
    Duration::from_micros(RNR_UNITS[(code & 0x1f) as usize] as u64 * 10)
}

/// Returns the code of the shortest delay that is at least `delay`, or of the longest there is.
pub fn rnr_code(delay: Duration) -> u8 {
    let codes = (1..RNR_UNITS.len() as u8).chain([0]);
    codes
        .into_iter()
        .find(|code| rnr_delay(*code) >= delay)
        .unwrap_or(0)
}

/// Returns the time of a five-bit local ACK timeout, or nothing for 0, which never fires.
///
/// Higher bits of `code` are ignored.
pub const fn ack_timeout(code: u8) -> Option<Duration> {
    match code & 0x1f {
        0 => None,
        exponent => Some(Duration::from_nanos(4096 << exponent)),
    }
}

// In units of 10 us. Code 0 is the longest delay, not none.
const RNR_UNITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

#[cfg(test)]
mod tests {
    use super::*;

    // As rdma-core names the codes: IBV_RNR_TIMER_61_44_MS and so on.
    const NAMES: [&str; 32] = [
        "655.36", "0.01", "0.02", "0.03", "0.04", "0.06", "0.08", "0.12", "0.16", "0.24", "0.32",
        "0.48", "0.64", "0.96", "1.28", "1.92", "2.56", "3.84", "5.12", "7.68", "10.24", "15.36",
        "20.48", "30.72", "40.96", "61.44", "81.92", "122.88", "163.84", "245.76", "327.68",
        "491.52",
    ];

    #[test]
    fn every_rnr_delay_is_as_long_as_its_name() {
        for (code, name) in NAMES.into_iter().enumerate() {
            let (whole, hundredths) = name.split_once('.').unwrap();
            let micros =
                whole.parse::<u64>().unwrap() * 1000 + hundredths.parse::<u64>().unwrap() * 10;
            assert_eq!(
                rnr_delay(code as u8),
                Duration::from_micros(micros),
                "{name} ms"
            );
            assert_eq!(rnr_code(Duration::from_micros(micros)), code as u8);
        }
        assert_eq!(rnr_code(Duration::from_micros(50)), 5);
        assert_eq!(rnr_code(Duration::from_secs(9)), 0);
        assert_eq!(rnr_code(Duration::ZERO), 1);
    }

    #[test]
    fn ack_timeouts_double() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(8192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        for code in 2..32 {
            assert_eq!(
                ack_timeout(code),
                ack_timeout(code - 1).map(|half| half * 2)
            );
        }
    }
}
