//! What the address of the TCP connection says about the GID in the handshake.

use core::net::IpAddr;

use anyhow::{Result, bail};
use roce_engine::verbs::Gid;

/// Returns a remark if the peer's TCP address and its GID don't fit together.
///
/// Hosts with a network of their own for RDMA differ, too, so this is a hint for a run that fails, not an error.
pub fn address_note(tcp: IpAddr, gid: Gid) -> Option<String> {
    let tcp = tcp.to_canonical();
    let rdma = gid.to_ip();
    // InfiniBand's peers have no GID, or one that is no address.
    if tcp == rdma || gid == Gid::default() {
        return None;
    }
    if rdma.is_loopback() && !tcp.is_loopback() {
        return Some(format!(
            "the peer connects from {tcp} but its GID is {rdma}, which only reaches itself: \
             have it choose another GID row (-x) or device (-d)"
        ));
    }
    if tcp.is_ipv4() != rdma.is_ipv4() || tcp.is_loopback() {
        return None;
    }
    let (private, public) = (is_private(rdma), !is_private(tcp));
    Some(if private && public {
        format!(
            "NAT: the peer's TCP connection comes from {tcp} but its GID is {rdma}, a private address: \
             RoCE does not pass address translation, use addresses that both ends see alike"
        )
    } else {
        format!(
            "the peer's TCP connection comes from {tcp} but its GID is {rdma}: two networks of one host, or NAT, \
             which RoCE does not pass"
        )
    })
}

/// Refuses two GIDs of different families, as a perftest peer does.
///
/// # Errors
/// Names both GIDs and the option that changes ours.
pub(super) fn check_families(local: Gid, remote: Gid) -> Result<()> {
    if local.is_ipv4() == remote.is_ipv4() {
        return Ok(());
    }
    let family = |gid: Gid| if gid.is_ipv4() { "IPv4" } else { "IPv6" };
    bail!(
        "GID families differ: ours is {} ({}), the peer's {} ({}); choose with -x or --ipv6 so that both are of one family",
        local.to_ip(),
        family(local),
        remote.to_ip(),
        family(remote)
    )
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            v4.is_private()
                || v4.is_link_local()
                || v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(tcp: &str, gid: &str) -> Option<String> {
        address_note(tcp.parse().unwrap(), Gid::from_ip(gid.parse().unwrap()))
    }

    #[test]
    fn fitting_addresses_need_no_remark() {
        assert_eq!(note("10.0.0.1", "10.0.0.1"), None);
        assert_eq!(note("::ffff:10.0.0.1", "10.0.0.1"), None);
        assert_eq!(note("127.0.0.1", "10.0.0.1"), None);
        assert_eq!(note("10.0.0.1", "fe80::1"), None);
    }

    #[test]
    fn translated_addresses_are_named() {
        assert!(
            note("203.0.113.9", "192.168.1.4")
                .unwrap()
                .starts_with("NAT")
        );
        assert!(
            note("10.0.0.1", "10.9.0.1")
                .unwrap()
                .contains("two networks")
        );
        assert!(
            note("10.0.0.1", "127.0.0.1")
                .unwrap()
                .contains("only reaches itself")
        );
    }

    #[test]
    fn families_must_be_one() {
        let v4 = Gid::from_ip("10.0.0.1".parse().unwrap());
        let v6 = Gid::from_ip("fd00::1".parse().unwrap());
        assert!(check_families(v4, v4).is_ok());
        assert!(check_families(v6, v6).is_ok());
        let error = check_families(v4, v6).unwrap_err().to_string();
        assert!(
            error.contains("10.0.0.1 (IPv4)") && error.contains("fd00::1 (IPv6)"),
            "{error}"
        );
    }
}
