//! From the library to an open port.

use std::path::Path;

use backend_verbs::{OpenError, Posting, VerbsDevice, devices};
use roce_engine::verbs::{Backend as _, GidKind, LinkLayer, Mtu, PKey};

use crate::fake;

fn words(result: Result<VerbsDevice, OpenError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_machine_without_the_library_is_told_its_package() {
    let nowhere = Path::new("/nonexistent/libibverbs.so.1");
    let text = words(VerbsDevice::open_with(
        nowhere,
        "mlx5_0",
        1,
        Posting::default(),
    ));
    assert!(
        text.starts_with(
            "libibverbs is not installed: package libibverbs1 (and ibverbs-providers): "
        ),
        "{text}"
    );
    assert!(text.contains("/nonexistent/libibverbs.so.1"), "{text}");
}

#[test]
fn another_library_is_not_taken_for_it() {
    let other = Path::new("libc.so.6");
    let text = words(VerbsDevice::open_with(
        other,
        "mlx5_0",
        1,
        Posting::default(),
    ));
    assert!(
        text.contains("libc.so.6 has no function ibv_get_device_list: it is not libibverbs"),
        "{text}"
    );
}

#[test]
fn a_kernel_without_rdma_is_told_from_one_without_a_device() {
    fake::fail("ibv_get_device_list", libc::ENOSYS, 0);
    assert_eq!(
        words(fake::open("rxe0")),
        "ibv_get_device_list of this machine: ENOSYS (38), Function not implemented: the kernel has no RDMA: \
         modprobe ib_uverbs (CONFIG_INFINIBAND_USER_ACCESS)"
    );
}

#[test]
fn having_no_device_comes_with_the_way_to_one() {
    fake::devices(0);
    assert_eq!(
        words(fake::open("rxe0")),
        "there is no RDMA device; how to get one: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0"
    );
}

#[test]
fn what_may_not_be_listed_or_opened_says_what_to_do() {
    for (call, errno, sentence) in [
        (
            "ibv_get_device_list",
            libc::EPERM,
            "ibv_get_device_list of this machine: EPERM (1), Operation not permitted: this process may not list RDMA \
             devices: run it as root",
        ),
        (
            "ibv_get_device_list",
            libc::ENOMEM,
            "ibv_get_device_list of this machine: ENOMEM (12), Cannot allocate memory: the device or the kernel has \
             no memory for it",
        ),
    ] {
        fake::fail(call, errno, 0);
        assert_eq!(words(fake::open("fake_roce0")), sentence);
    }
}

#[test]
fn a_file_that_may_not_be_opened_says_whose_it_is() {
    fake::fail("ibv_open_device", libc::EACCES, 0);
    assert_eq!(
        words(fake::open("fake_roce0")),
        "ibv_open_device of fake_roce0: EACCES (13), Permission denied: this process may not open \
         /dev/infiniband/uverbs*: run it as root, or give the file to its group"
    );
    fake::fail("ibv_open_device", libc::ENOENT, 0);
    let text = words(fake::open("fake_roce0"));
    assert!(text.contains("modprobe ib_uverbs"), "{text}");
}

#[test]
fn names_ports_and_transports_that_cannot_be_are_named() {
    assert_eq!(
        words(fake::open("mlx5_9")),
        "there is no RDMA device mlx5_9; there are: fake_ib0, fake_roce0, fake_iw0"
    );
    assert_eq!(
        words(VerbsDevice::open_with(
            fake::library(),
            "fake_ib0",
            2,
            Posting::default()
        )),
        "RDMA device fake_ib0 has no port 2: it has 1, counted from 1 (-i)"
    );
    assert!(words(fake::open("fake_iw0")).contains("speaks iWARP"));
}

#[test]
fn a_port_that_fails_after_the_device_is_open_is_told_with_its_number() {
    fake::fail("ibv_query_port", libc::EIO, 0);
    assert_eq!(
        words(fake::open("fake_roce0")),
        "ibv_query_port of fake_roce0 port 1: EIO (5), Input/output error: the device is gone, or its driver has \
         given it up"
    );
}

#[test]
fn a_port_is_read_as_the_library_has_it() {
    let roce = fake::open("fake_roce0").unwrap();
    let port = roce.port();
    assert_eq!(
        (port.active, port.link_layer, port.lid),
        (true, LinkLayer::Ethernet, 0)
    );
    assert_eq!(
        (port.active_mtu, &port.pkeys[..]),
        (Mtu::B1024, &[PKey(0xffff), PKey(0x8001)][..])
    );
    let rows: Vec<_> = port
        .gids
        .iter()
        .map(|row| {
            (
                row.index,
                row.kind,
                row.gid.to_ip().to_string(),
                row.netdev.as_str(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (0, GidKind::IbOrRoceV1, "fe80::7".to_owned(), "lo"),
            (1, GidKind::RoceV2, "fe80::7".to_owned(), "lo"),
            (2, GidKind::RoceV2, "127.0.0.1".to_owned(), "lo"),
        ]
    );
    let ib = fake::open("fake_ib0").unwrap();
    assert_eq!(
        (ib.port().link_layer, ib.port().lid),
        (LinkLayer::InfiniBand, 0x17)
    );
    assert_eq!((ib.device().max_qp, ib.device().max_qp_rd_atom), (1024, 16));
}

#[test]
fn all_devices_are_described_and_one_that_fails_in_its_place() {
    fake::fail("ibv_query_device", libc::EIO, 2);
    let all = devices(Some(fake::library())).unwrap();
    assert_eq!(all.len(), 3);
    let ib = all[0].as_ref().unwrap();
    assert_eq!(
        (ib.name.as_str(), ib.transport, ib.node_guid),
        ("fake_ib0", "InfiniBand", 0x0002_c903_0012_3456)
    );
    let port = &ib.ports[0];
    assert_eq!(
        (port.state, port.physical_state, port.rate.as_str()),
        ("ACTIVE", "LINK_UP", "4X 25.0 Gbps")
    );
    assert_eq!(
        (port.sm_lid, port.attr.lid, port.max_mtu),
        (1, 0x17, Mtu::B4096)
    );
    assert!(
        all[2]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("ibv_query_device of fake_iw0")
    );
}
