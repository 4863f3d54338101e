//! `-d verbs:NAME` over the libibverbs of `backend-verbs`' tests, whose devices are in memory: what no machine of ours
//! has, InfiniBand and an adapter that perftest knows.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::{Running, Said, free_port, listening, said_until};

/// Returns the folder of the library, which is built once under the name that the system's has.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let name = format!("verbs-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../backend-verbs/tests/fake/libibverbs.rs");
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let built = Command::new(compiler)
            .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
            .arg(folder.join("libibverbs.so.1"))
            .arg(source)
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        folder
    })
}

/// Starts a server and a client over the library, each with its own trouble.
fn start(words: &str, [server, client]: [&str; 2]) -> (Running, Running) {
    let (port, folder) = (free_port(), library());
    let path = folder.to_str().unwrap();
    let set = |trouble| [("LD_LIBRARY_PATH", path), ("FAKE_IBV", trouble)];
    let words = format!("{words} -p {port}");
    let server = listening(Running::start_with(&words, folder, &set(server)));
    let words = format!("{words} 127.0.0.1");
    let client = Running::start_with(&words, folder, &set(client));
    (server, client)
}

/// As [`start`], to their ends.
fn pair(words: &str, troubles: [&str; 2]) -> (Said, Said) {
    let (server, client) = start(words, troubles);
    let client = client.finish();
    (server.finish(), client)
}

fn lines<'s>(said: &'s Said, start: &str) -> Vec<&'s str> {
    let lines = said.out.lines();
    lines
        .filter(|line| line.trim_start().starts_with(start))
        .collect()
}

#[test]
fn infiniband_peers_meet_by_their_lids() {
    let (server, client) = pair(
        "write-bw -d verbs:fake_ib0 -n 100",
        ["identity=717:4119"; 2],
    );
    for said in [&server, &client] {
        said.assert_code(0);
        assert_eq!(lines(said, "Link type"), [" Link type       : IB"]);
        assert_eq!(lines(said, "PCIe relax"), [" PCIe relax order: ON"]);
        assert_eq!(lines(said, "ibv_wr*"), [" ibv_wr* API     : ON"]);
        assert_eq!(lines(said, "GID"), [""; 0], "{said:#?}");
        let addresses = lines(said, "local address: LID 0x17 QPN");
        assert_eq!(addresses.len(), 1, "{said:#?}");
    }
    assert_eq!(client.sizes(), [65536]);
}

#[test]
fn a_latency_test_copies_by_the_device_and_keeps_its_order() {
    for (device, words, copied) in [
        ("717:4119", "write-lat", 220),
        ("717:4119", "send-lat -c UD", 188),
        ("7439:61344", "send-lat", 32),
        ("0:0", "write-lat", 0),
        ("717:4119", "write-lat -I 64", 64),
    ] {
        // Nothing arrives between two processes over this library: both wait for it, and are killed.
        let words = format!("{words} -d verbs:fake_roce0 -n 10 -x 2");
        let trouble = format!("identity={device}");
        let (_server, mut client) = start(&words, [&trouble, &trouble]);
        let banner = said_until(&mut client, "rdma_cm QPs");
        let order = if words.contains("write") { "OFF" } else { "ON" };
        for wanted in [
            format!(" Max inline data : {copied}[B]\n"),
            format!(" PCIe relax order: {order}\n"),
        ] {
            assert!(banner.contains(&wanted), "{wanted} in {banner}");
        }
    }
}

#[test]
fn the_older_calls_are_used_where_they_are_asked_for_or_all_there_is() {
    for (words, trouble) in [
        (
            "--use_old_post_send --disable_pcie_relaxed",
            "identity=717:4119",
        ),
        (
            "--disable_pcie_relaxed",
            "identity=717:4119,ibv_create_qp_ex=95",
        ),
        // No device that perftest posts to by the newer ones.
        ("--disable_pcie_relaxed", "identity=5348:5968"),
    ] {
        let words = format!("write-bw -d verbs:fake_roce0 -x 2 -n 100 {words}");
        let (server, client) = pair(&words, [trouble, trouble]);
        for said in [&server, &client] {
            said.assert_code(0);
            assert_eq!(lines(said, "ibv_wr*"), [" ibv_wr* API     : OFF"]);
            assert_eq!(lines(said, "PCIe relax"), [" PCIe relax order: OFF"]);
        }
    }
}

#[test]
fn a_device_that_copies_less_than_perftest_takes_for_granted_copies_nothing() {
    let trouble = "identity=717:4119,inline=100";
    let words = "write-lat -d verbs:fake_roce0 -x 2 -n 100";
    let (_server, mut client) = start(words, [trouble; 2]);
    said_until(&mut client, " remote address");
    // What was asked for is another matter.
    let (_server, client) = start(&format!("{words} -I 101"), ["inline=512", trouble]);
    let client = client.finish();
    client.assert_code(3);
    assert!(client.err.contains("use a smaller one"), "{client:#?}");
}

#[test]
fn a_device_that_answers_at_once_keeps_no_run_from_its_end() {
    for test in ["read-lat", "atomic-lat", "read-bw", "write-bw", "atomic-bw"] {
        let words = format!("{test} -d verbs:fake_roce0 -x 2 -D 2");
        let (server, client) = pair(&words, [""; 2]);
        server.assert_code(0);
        client.assert_code(0);
        assert_eq!(client.sizes().len(), 1, "{client:#?}");
    }
    for test in ["read-lat", "read-bw"] {
        let words = format!("{test} -d verbs:fake_roce0 -x 2 -n 50000000");
        let (_server, mut client) = start(&words, [""; 2]);
        said_until(&mut client, " #bytes");
        client.interrupt();
        client.finish().assert_code(130);
    }
}

#[test]
fn a_provider_that_fails_late_ends_both_sides_with_its_reason() {
    let (server, client) = pair(
        "write-bw -d verbs:fake_roce0 -x 2 -n 100 -q 2",
        ["", "ibv_modify_qp=110@4"],
    );
    client.assert_code(1);
    assert!(client.err.contains("ETIMEDOUT (110)"), "{client:#?}");
    assert!(client.err.contains("fake_roce0"), "{client:#?}");
    assert_ne!(server.code, Some(0), "{server:#?}");
}
