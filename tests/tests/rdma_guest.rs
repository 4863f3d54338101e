//! `roce -d verbs:rxe0` inside of the guest, on the kernel's soft-RoCE: against stock perftest beside it, in both roles
//! and all eight tests, and against `roce -d udp` outside.
#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

use core::time::Duration;
use std::path::Path;

use roce_tests::guest::case::Test;
use roce_tests::guest::{Guest, Inside, net};
use roce_tests::process::Process;
use roce_tests::table;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn the_command_drives_an_rdma_device() {
    let Some(mut with_roce) =
        Inside::boot("rdma_guest", "bookworm", env!("CARGO_TARGET_TMPDIR")).unwrap()
    else {
        return;
    };
    let guest = &mut with_roce.guest;

    let devices = guest.must("roce devices").unwrap();
    assert!(devices.contains("verbs:rxe0\n"), "{devices}");
    assert!(devices.contains("rdma_rxe has UDP port 4791"), "{devices}");

    let mut port = 19_515;
    for test in Test::ALL {
        let stock = format!("{} -d rxe0 -F -n 50", test.stock_name());
        let ours = format!("roce {} -d verbs:rxe0 -n 50", test.name());
        for (server, client) in [(&stock, &ours), (&ours, &stock)] {
            port += 1;
            inside(guest, (server, client), port);
        }
    }
    for test in Test::ALL {
        port += 1;
        by_wr_api(guest, test, port);
    }
    port += 1;
    outside(guest, &with_roce.roce, &with_roce.folder, port);
    let compared = guest
        .run(
            "roce compare --quick --tests read-bw,write-lat --backends verbs",
            LIMIT,
        )
        .unwrap();
    assert_eq!(compared.status, 0, "{}", compared.text);
    assert!(compared.text.contains("verbs:rxe0"), "{}", compared.text);
    with_roce.end().unwrap();
}

/// Runs both ends in the guest; each has to exit with 0, and the client to print a row with an average above zero.
fn inside(guest: &mut Guest, (server, client): (&str, &str), port: u16) {
    guest.serve(&format!("{server} -p {port}"), port).unwrap();
    let told = guest
        .run(&format!("{client} -p {port} 127.0.0.1"), LIMIT)
        .unwrap();
    let served = guest.served(LIMIT).unwrap();
    let both = format!("{client}:\n{}\n{server}:\n{}", told.text, served.text);
    assert_eq!((told.status, served.status), (0, 0), "{both}");
    let rows = table::rows(&told.text);
    // Stock perftest cannot calibrate its clock on every emulated machine, and reports zeros then.
    let lacks_a_clock = both.contains("Correlation coefficient");
    assert!(
        rows.len() == 1 && (lacks_a_clock || rows[0].has_figure()),
        "{both}"
    );
    println!("ok     {client} to {server}");
}

/// As [`inside`], with our requests posted by the calls of rxe's provider, data copied inline and looked at.
fn by_wr_api(guest: &mut Guest, test: Test, port: u16) {
    let small = match test {
        Test::WriteBw | Test::SendBw | Test::WriteLat | Test::SendLat => "-s 48 -I 48",
        Test::ReadBw | Test::ReadLat | Test::AtomicBw | Test::AtomicLat => "",
    };
    let ours = format!(
        "ROCE_IBV_WR=1 roce {} -d verbs:rxe0 -n 200 -p {port} --verify {small}",
        test.name()
    );
    guest.serve(&ours, port).unwrap();
    let told = guest.run(&format!("{ours} 127.0.0.1"), LIMIT).unwrap();
    let served = guest.served(LIMIT).unwrap();
    let both = format!("{ours}:\n{}\n{}", told.text, served.text);
    assert_eq!((told.status, served.status), (0, 0), "{both}");
    assert!(told.text.contains("ibv_wr* API     : ON"), "{both}");
    // A device does not tell of a peer's WRITEs and atomics one by one.
    if matches!(test.name(), "send-bw" | "send-lat" | "read-bw" | "read-lat") {
        assert!(both.contains("200 of 200 messages checked"), "{both}");
    }
    println!("ok     {ours}");
}

/// Our engine outside, the device inside, data looked at.
fn outside(guest: &mut Guest, roce: &Path, folder: &Path, port: u16) {
    let options = format!("send-bw -s 8192 -n 100 -t 16 --verify -p {port}");
    guest
        .serve(&format!("roce {options} -d verbs:rxe0"), port)
        .unwrap();
    let mut client = guest.namespace().command(roce.to_str().unwrap());
    client.args(options.split_whitespace()).args([
        "-d",
        &format!("udp:{}", net::TAP),
        net::GUEST_V4,
    ]);
    let told = Process::start(&mut client, &folder.join("client.log"))
        .unwrap()
        .finish(LIMIT)
        .unwrap();
    let served = guest.served(LIMIT).unwrap();
    let both = format!("{}\n{}", told.text, served.text);
    assert_eq!((told.status, served.status), (0, 0), "{both}");
    assert!(served.text.contains("100 of 100 messages"), "{both}");
    println!("ok     udp outside to verbs inside");
}
