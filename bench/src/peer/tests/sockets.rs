//! Listening and connecting.

use core::time::Duration;
use std::net::TcpListener;
use std::time::Instant;

use crate::exit;
use crate::peer::{Listener, connect, rest};
use crate::spec::{Metric, Op, Role, Spec, Test};

fn server(port: u16) -> Spec {
    Spec {
        port,
        connect_timeout: Duration::from_millis(500),
        ..Spec::new(Test::new(Op::Write, Metric::Bandwidth))
    }
}

fn client(port: u16, host: &str) -> Spec {
    Spec {
        role: Role::Client { host: host.into() },
        ..server(port)
    }
}

#[test]
fn one_server_answers_both_families() {
    for host in ["127.0.0.1", "::1", "localhost"] {
        let listener = Listener::bind(&server(0)).unwrap();
        let ours = connect(&client(listener.port().unwrap(), host)).unwrap();
        let theirs = listener
            .accept(Some(Duration::from_secs(5)), &mut rest)
            .unwrap();
        assert_eq!(
            theirs.peer_addr().unwrap().port(),
            ours.local_addr().unwrap().port()
        );
    }
}

#[test]
fn server_without_client_gives_up_when_asked_to() {
    let listener = Listener::bind(&server(0)).unwrap();
    let start = Instant::now();
    let error = listener
        .accept(Some(Duration::from_millis(50)), &mut rest)
        .unwrap_err();
    assert!(error.to_string().contains("nobody connected"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn taken_port_is_an_environment_error() {
    let other = TcpListener::bind("[::]:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let error = Listener::bind(&server(port)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("TCP port {port} is taken")),
        "{error}"
    );
    assert_eq!(exit::status_of(&error), exit::ENVIRONMENT);
}

#[test]
fn foreign_source_address_is_an_environment_error() {
    let foreign = Some("192.0.2.77".parse().unwrap());
    let spec = Spec {
        bind_source_ip: foreign,
        ..server(0)
    };
    let error = Listener::bind(&spec).unwrap_err();
    assert!(
        error.to_string().contains("192.0.2.77 (--bind_source_ip)"),
        "{error}"
    );
    let spec = Spec {
        bind_source_ip: foreign,
        ..client(1, "127.0.0.1")
    };
    let error = connect(&spec).unwrap_err();
    assert_eq!(exit::status_of(&error), exit::ENVIRONMENT);
}

#[test]
fn missing_server_is_said_at_once() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let error = connect(&client(port, "127.0.0.1")).unwrap_err().to_string();
    assert!(
        error.contains(&format!("no server listens on TCP port {port}")),
        "{error}"
    );
}

#[test]
fn wrong_names_and_families_are_said() {
    let error = connect(&client(1, "no such name")).unwrap_err().to_string();
    assert!(error.contains("neither an address nor a name"), "{error}");
    let spec = Spec {
        ipv6_addr: true,
        ..client(1, "127.0.0.1")
    };
    let error = connect(&spec).unwrap_err().to_string();
    assert!(error.contains("--ipv6-addr asks for IPv6"), "{error}");
}
