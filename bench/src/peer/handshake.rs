//! The text line in which an end describes one QP: 108 bytes with a GID, as every RoCE peer sends it, or 59 without,
//! as peers on InfiniBand do that were given no `-x`.

use core::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use roce_engine::verbs::{Gid, Psn, Qpn, RKey};

use super::Endpoint;

/// Bytes of the line with its NUL.
pub(super) const LEN: usize = 108;
/// Bytes of the line of an InfiniBand peer without GIDs.
pub(super) const LEN_WITHOUT_GID: usize = 59;

/// Bytes of the line before the GID.
const FIRST: usize = 50;

/// Writes the line of an endpoint.
pub(super) fn encode(endpoint: &Endpoint) -> [u8; LEN] {
    let mut text = String::with_capacity(LEN);
    let Endpoint {
        lid,
        out,
        qpn,
        psn,
        rkey,
        vaddr,
        gid,
        srqn,
    } = endpoint;
    let _infallible = write!(
        text,
        "{lid:04x}:{out:04x}:{:06x}:{:06x}:{:08x}:{vaddr:016x}:",
        qpn.value(),
        psn.value(),
        rkey.0
    );
    for byte in gid.0 {
        let _infallible = write!(text, "{byte:02x}:");
    }
    let _infallible = write!(text, "{srqn:08x}:");
    let mut line = [0; LEN];
    line[..LEN - 1].copy_from_slice(text.as_bytes());
    line
}

/// Writes the line of an endpoint that is reached by its LID.
pub(super) fn encode_without_gid(endpoint: &Endpoint) -> [u8; LEN_WITHOUT_GID] {
    // The same fields, but for the 16 of the GID between the first ones and the last.
    let long = encode(endpoint);
    let mut line = [0; LEN_WITHOUT_GID];
    line[..FIRST].copy_from_slice(&long[..FIRST]);
    line[FIRST..LEN_WITHOUT_GID - 1].copy_from_slice(&long[LEN - 10..LEN - 2]);
    line
}

/// Reads the line of an endpoint that is reached by its LID.
///
/// # Errors
/// Says what came instead.
pub(super) fn decode_without_gid(line: &[u8; LEN_WITHOUT_GID]) -> Result<Endpoint> {
    let mut long = [0; LEN];
    long[..FIRST].copy_from_slice(&line[..FIRST]);
    for place in long[FIRST..LEN - 10].chunks_exact_mut(3) {
        place.copy_from_slice(b"00:");
    }
    long[LEN - 10..LEN - 2].copy_from_slice(&line[FIRST..LEN_WITHOUT_GID - 1]);
    long[LEN - 2] = b':';
    let endpoint = decode(&long)?;
    ensure!(
        line[LEN_WITHOUT_GID - 1] == 0,
        "no NUL after {} characters",
        LEN_WITHOUT_GID - 1
    );
    Ok(endpoint)
}

/// Looks at the part of a line that has arrived, and refuses the form with a GID, which is longer.
///
/// # Errors
/// Says which end lacks an option.
pub(super) fn refuse_long_form(arrived: &[u8]) -> Result<()> {
    if arrived
        .get(LEN_WITHOUT_GID - 1)
        .is_some_and(|last| *last != 0)
    {
        bail!(
            "the peer sent the {LEN}-byte form with a GID, and our end is on InfiniBand without one: give -x to both \
             ends or to none"
        );
    }
    Ok(())
}

/// Looks at the part of a line that has arrived, and refuses the form of InfiniBand, which is shorter.
///
/// # Errors
/// Says that the peer has no GID.
pub(super) fn refuse_short_form(arrived: &[u8]) -> Result<()> {
    if arrived.get(LEN_WITHOUT_GID - 1) == Some(&0) {
        bail!(
            "the peer sent the {LEN_WITHOUT_GID}-byte form of InfiniBand, without a GID: RoCE needs one; \
             give it -x with a RoCEv2 row of its GID table"
        );
    }
    Ok(())
}

/// Reads the line of an endpoint.
///
/// # Errors
/// Says what came instead.
pub(super) fn decode(line: &[u8; LEN]) -> Result<Endpoint> {
    parse(line).with_context(|| {
        format!(
            "the peer's handshake reads \"{}\"; its options may differ from ours (-R, -z and --data_validation change this message)",
            line.escape_ascii()
        )
    })
}

fn parse(line: &[u8; LEN]) -> Result<Endpoint> {
    let [text @ .., 0] = line else {
        bail!("no NUL after {} characters", LEN - 1);
    };
    let text = core::str::from_utf8(text).context("not text")?;
    let mut fields = text.split(':');
    let mut next = |name: &str, width: usize| {
        let field = fields.next().with_context(|| format!("no {name}"))?;
        let hex = field.len() == width && field.bytes().all(|byte| byte.is_ascii_hexdigit());
        ensure!(hex, "{name} is `{field}`, not {width} hex digits");
        u64::from_str_radix(field, 16).with_context(|| format!("{name} is `{field}`"))
    };
    let lid = u16::try_from(next("LID", 4)?)?;
    let out = u16::try_from(next("OUT", 4)?)?;
    let qpn = Qpn::new(u32::try_from(next("QPN", 6)?)?);
    let psn = Psn::new(u32::try_from(next("PSN", 6)?)?);
    let rkey = RKey(u32::try_from(next("RKEY", 8)?)?);
    let vaddr = next("VADDR", 16)?;
    let mut gid = Gid::default();
    for byte in &mut gid.0 {
        *byte = u8::try_from(next("GID", 2)?)?;
    }
    let srqn = u32::try_from(next("SRQN", 8)?)?;
    ensure!(fields.next() == Some(""), "no colon at its end");
    ensure!(fields.next().is_none(), "more fields than there should be");
    Ok(Endpoint {
        lid,
        out,
        qpn,
        psn,
        rkey,
        vaddr,
        gid,
        srqn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: &[u8; LEN] = b"0000:0001:5cfb01:36bcce:00000101:00007fd5400b9000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:01:0a:00000000:\0";

    #[test]
    fn line_of_a_stock_peer_is_read_and_written() {
        let endpoint = decode(SEEN).unwrap();
        assert_eq!(endpoint.qpn.value(), 0x005c_fb01);
        assert_eq!(endpoint.psn.value(), 0x0036_bcce);
        assert_eq!(endpoint.rkey, RKey(0x101));
        assert_eq!(endpoint.vaddr, 0x7fd5_400b_9000);
        assert_eq!(endpoint.gid.to_ip().to_string(), "192.168.1.10");
        assert_eq!((endpoint.lid, endpoint.out, endpoint.srqn), (0, 1, 0));
        assert_eq!(&encode(&endpoint), SEEN);
    }

    #[test]
    fn damaged_lines_are_named() {
        let damaged = |at: usize, byte: u8| {
            let mut line = *SEEN;
            line[at] = byte;
            format!("{:#}", decode(&line).unwrap_err())
        };
        assert!(
            damaged(107, b':').contains("no NUL"),
            "{}",
            damaged(107, b':')
        );
        assert!(damaged(10, b'g').contains("QPN is `gcfb01`"));
        assert!(damaged(10, b'+').contains("QPN is `+cfb01`"));
        assert!(damaged(16, b'0').contains("QPN"));
        assert!(damaged(106, b'0').contains("SRQN"));
        assert!(damaged(0, 0xff).contains("not text"));
        assert!(format!("{:#}", decode(&[0; LEN]).unwrap_err()).contains("LID"));
    }

    #[test]
    fn infiniband_form_is_the_other_without_its_gid() {
        let line = b"0017:0001:5cfb01:36bcce:00000101:00007fd5400b9000:00000007\0";
        let endpoint = decode_without_gid(line).unwrap();
        assert_eq!(
            (endpoint.lid, endpoint.srqn, endpoint.gid),
            (0x17, 7, Gid::default())
        );
        assert_eq!(endpoint.vaddr, 0x7fd5_400b_9000);
        assert_eq!(&encode_without_gid(&endpoint), line);
        assert!(refuse_long_form(line).is_ok());
        let error = refuse_long_form(SEEN).unwrap_err().to_string();
        assert!(error.contains("give -x to both ends"), "{error}");
        let mut damaged = *line;
        damaged[58] = b':';
        assert!(decode_without_gid(&damaged).is_err());
        damaged[20] = b'x';
        assert!(decode_without_gid(&damaged).is_err());
    }

    #[test]
    fn infiniband_form_is_recognised() {
        let mut line = b"0001:0001:5cfb01:36bcce:00000101:00007fd5400b9000:00000000\0".to_vec();
        assert_eq!(line.len(), LEN_WITHOUT_GID);
        let error = refuse_short_form(&line).unwrap_err().to_string();
        assert!(error.contains("InfiniBand"), "{error}");
        line.pop();
        assert!(refuse_short_form(&line).is_ok());
        assert!(refuse_short_form(SEEN).is_ok());
    }
}
