//! Who holds a UDP port.

use core::net::{IpAddr, SocketAddr};
use std::fs;
use std::path::Path;

/// A row of `/proc/net/udp` or `udp6`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Row {
    user: u32,
    inode: u64,
}

/// Returns how many sockets are bound to exactly this address, or 0 if the system doesn't say.
pub(super) fn bound_to(address: SocketAddr) -> usize {
    let text = fs::read_to_string(table(address.is_ipv6())).unwrap_or_default();
    rows(&text, &hex_name(address.ip(), address.port())).count()
}

/// Says who holds the port of an address, by itself or for all addresses, and what can be done.
pub(super) fn of_port(address: SocketAddr) -> String {
    let port = address.port();
    let v4 = fs::read_to_string(table(false)).unwrap_or_default();
    let v6 = fs::read_to_string(table(true)).unwrap_or_default();
    let own = if address.is_ipv6() { &v6 } else { &v4 };
    let any4 = hex_name(IpAddr::from([0; 4]), port);
    let any6 = hex_name(IpAddr::from([0_u16; 8]), port);
    let found: Vec<Row> = rows(own, &hex_name(address.ip(), port))
        .chain(rows(&v4, &any4))
        .chain(rows(&v6, &any6))
        .collect();
    if let Some(pid) = found.iter().find_map(|row| process_with(row.inode)) {
        return format!("{}: end it, or use another address", describe(pid));
    }
    if Path::new("/sys/module/rdma_rxe").exists() {
        return "the kernel's soft-RoCE driver (rdma_rxe), which takes the port on every address: \
                test its devices (rdma link), unload it (rmmod rdma_rxe) or use another network \
                namespace"
            .to_owned();
    }
    match found.first() {
        Some(row) => format!(
            "a process of user {} that this user may not look into: run both ends as one user, or \
             use another address",
            row.user
        ),
        None => "somebody that /proc/net/udp doesn't show".to_owned(),
    }
}

/// Names a process.
pub(super) fn describe(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match name.trim_end() {
        "" => format!("pid {pid}"),
        name => format!("{name} (pid {pid})"),
    }
}

fn table(ipv6: bool) -> &'static str {
    if ipv6 {
        "/proc/net/udp6"
    } else {
        "/proc/net/udp"
    }
}

/// Returns an address as the kernel prints it there: words of the host's byte order.
fn hex_name(ip: IpAddr, port: u16) -> String {
    let octets = match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).map(|word| {
        let word = word.try_into().map_or(0, u32::from_ne_bytes);
        format!("{word:08X}")
    });
    format!("{}:{port:04X}", words.collect::<String>())
}

fn rows<'a>(table: &'a str, name: &'a str) -> impl Iterator<Item = Row> + 'a {
    table.lines().filter_map(move |line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let row = Row {
            user: words.get(7)?.parse().ok()?,
            inode: words.get(9)?.parse().ok()?,
        };
        (words[1] == name).then_some(row)
    })
}

fn process_with(inode: u64) -> Option<i32> {
    let wanted = format!("socket:[{inode}]");
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let mut open = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        let holds = open
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()));
        holds.then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_foreign_socket_is_traced_to_its_process() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(bound_to(address), 1);
        let own = format!("(pid {})", std::process::id());
        assert!(of_port(address).contains(&own), "{}", of_port(address));
        drop(socket);
        assert_eq!(bound_to(address), 0);
    }

    #[test]
    fn a_socket_on_all_addresses_is_found_for_each() {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = format!("(pid {})", std::process::id());
        for ip in ["127.0.0.1", "::1"] {
            let address = SocketAddr::new(ip.parse().unwrap(), port);
            assert_eq!(bound_to(address), 0);
            assert!(of_port(address).contains(&own), "{}", of_port(address));
        }
    }

    #[test]
    fn odd_tables_have_no_rows() {
        for text in [
            "",
            "sl local_address",
            "a b c d e f g h i j",
            "0: 0100007F:12B7 x",
        ] {
            assert_eq!(rows(text, "0100007F:12B7").count(), 0);
        }
    }
}
