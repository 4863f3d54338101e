use core::net::Ipv4Addr;
use std::net::UdpSocket;

use super::*;

const SERVER: u32 = 0;
const CLIENT: u32 = 1;

/// An endpoint of a test: its own port keeps tests apart.
fn endpoint(port: u16, role: Endpoint) -> Result<Bound, OpenError> {
    let addresses = [
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        SocketAddr::new("::1".parse().unwrap(), port),
    ];
    bind(&addresses, role, |address| {
        Ok(UdpSocket::from(socket_for(address)).into())
    })
}

fn socket_for(address: SocketAddr) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::DGRAM, flags, None).unwrap()
}

/// Returns whether a packet to a QPN arrives at an endpoint, on both of its addresses.
fn reaches(bound: &Bound, qpn: u32) -> bool {
    let mut packet = [0; 16];
    packet[4..8].copy_from_slice(&(0xc100_0000 | qpn).to_be_bytes());
    let sender4 = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender6 = UdpSocket::bind("[::1]:0").unwrap();
    let mut all = true;
    for socket in &bound.sockets {
        let port = rustix::net::getsockname(socket).unwrap();
        let to = SocketAddr::try_from(port).unwrap();
        let sender = if to.is_ipv6() { &sender6 } else { &sender4 };
        sender.send_to(&packet, to).unwrap();
        let mut buffer = [0; 64];
        let flags = rustix::net::RecvFlags::DONTWAIT;
        let got = rustix::net::recv(socket, &mut buffer, flags);
        all &= got.is_ok_and(|(_, len)| len == 16);
    }
    all
}

fn assert_split(server: &Bound, client: &Bound) {
    for qpn in [2, 0x10_0000, 0xff_fffe] {
        assert!(reaches(server, qpn), "even QPNs are the server's");
    }
    for qpn in [3, 0x10_0001, 0xff_fffd] {
        assert!(reaches(client, qpn), "odd QPNs are the client's");
    }
    assert!(reaches(server, 1), "QP1 is the server's");
}

fn assert_alone(one: &Bound) {
    for qpn in [1, 2, 3] {
        assert!(reaches(one, qpn), "who is alone gets everything");
    }
}

#[test]
fn clients_come_and_go_while_a_server_stays() {
    let server = endpoint(24_801, Endpoint::Server).unwrap();
    for _ in 0..50 {
        assert_alone(&server);
        let client = endpoint(24_801, Endpoint::Client).unwrap();
        assert_eq!((server.parity, client.parity), (Some(SERVER), Some(CLIENT)));
        assert_split(&server, &client);
    }
}

#[test]
fn the_two_come_and_go_in_any_order() {
    let mut server = None;
    let mut client = None;
    let mut random = 1_u32;
    for _ in 0..200 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (slot, role) = if random >> 31 == 0 {
            (&mut server, Endpoint::Server)
        } else {
            (&mut client, Endpoint::Client)
        };
        if slot.take().is_none() {
            *slot = Some(endpoint(24_802, role).unwrap());
        }
        match (&server, &client) {
            (Some(server), Some(client)) => assert_split(server, client),
            (Some(one), None) | (None, Some(one)) => assert_alone(one),
            (None, None) => {}
        }
    }
}

#[test]
fn a_second_endpoint_of_a_role_takes_the_other_parity() {
    let first = endpoint(24_803, Endpoint::Client).unwrap();
    let second = endpoint(24_803, Endpoint::Client).unwrap();
    assert_eq!((first.parity, second.parity), (Some(CLIENT), Some(SERVER)));
    assert_split(&second, &first);
}

#[test]
fn a_third_endpoint_is_told_who_the_two_are() {
    let _server = endpoint(24_804, Endpoint::Server).unwrap();
    let _client = endpoint(24_804, Endpoint::Client).unwrap();
    let Err(error) = endpoint(24_804, Endpoint::Client) else {
        panic!("three can't share an address")
    };
    let own = format!("(pid {})", std::process::id());
    let text = error.to_string();
    assert_eq!(text.matches(&own).count(), 2, "{text}");
    assert!(matches!(error, OpenError::Shared { .. }));
}

#[test]
fn a_port_that_is_not_shared_is_refused_with_its_holder() {
    let _foreign = UdpSocket::bind("127.0.0.1:24805").unwrap();
    let Err(error) = endpoint(24_805, Endpoint::Server) else {
        panic!("the port is taken")
    };
    let own = format!("(pid {})", std::process::id());
    assert!(matches!(error, OpenError::InUse { .. }));
    assert!(error.to_string().contains(&own), "{error}");
}

#[test]
fn many_that_open_at_once_never_confuse_the_group() {
    let threads: Vec<_> = [Endpoint::Server, Endpoint::Client]
        .into_iter()
        .map(|role| {
            thread::spawn(move || {
                for _ in 0..100 {
                    drop(endpoint(24_806, role).unwrap());
                }
                endpoint(24_806, role).unwrap()
            })
        })
        .collect();
    let ends: Vec<_> = threads.into_iter().map(|one| one.join().unwrap()).collect();
    let [server, client] = &ends[..] else {
        panic!("two ends")
    };
    // Whoever came while the other's last socket was open may have found either parity free.
    if server.parity == Some(SERVER) {
        assert_split(server, client);
    } else {
        assert_split(client, server);
    }
}
