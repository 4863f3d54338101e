//! A peer that runs another test, or the same with other options.

use anyhow::{Result, ensure};

use super::{Fault, Field, both_pass, nothing, says};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "our write-bw against a stock read-bw",
        play: write_to_read,
    },
    Fault {
        name: "our send-bw against a stock write-bw",
        play: send_to_write,
    },
    Fault {
        name: "our read-bw against a stock write-bw",
        play: read_to_write,
    },
    Fault {
        name: "a stock read-bw against our write-bw",
        play: write_from_read,
    },
    Fault {
        name: "a stock atomic-lat against our read-lat",
        play: read_from_atomic,
    },
    Fault {
        name: "our messages longer than the stock server's",
        play: longer_than_theirs,
    },
    Fault {
        name: "our SENDs longer than the stock server's receives",
        play: longer_sends,
    },
    Fault {
        name: "a stock client's SENDs longer than our receives",
        play: longer_sends_of_theirs,
    },
    Fault {
        name: "more QPs than the stock server has",
        play: more_qps,
    },
    Fault {
        name: "more SENDs than the stock server awaits",
        play: more_sends,
    },
    Fault {
        name: "a stock server with a smaller path MTU",
        play: smaller_mtu,
    },
    Fault {
        name: "a stock client with a smaller path MTU",
        play: smaller_mtu_of_client,
    },
];

const NEED: &str = "differs from ours";

fn write_to_read(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("write-bw -n 20", ("ib_read_bw", "-n 20"), nothing)?;
    says(&ours, 1, &["test", NEED])
}

fn send_to_write(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("send-bw -n 20", ("ib_write_bw", "-n 20"), nothing)?;
    says(&ours, 1, &["test differs from ours"])
}

fn read_to_write(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("read-bw -n 20", ("ib_write_bw", "-n 20"), nothing)?;
    says(&ours, 1, &["test", NEED])
}

fn write_from_read(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) = field.with_client("write-bw -n 20", ("ib_read_bw", "-n 20"), nothing)?;
    ensure!(theirs.status != 0, "a READ of our buffer succeeded");
    says(&ours, 1, &["test", NEED])
}

fn read_from_atomic(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) =
        field.with_client("read-lat -n 20", ("ib_atomic_lat", "-n 20"), nothing)?;
    ensure!(theirs.status != 0, "an atomic on our buffer succeeded");
    says(&ours, 1, &["test", NEED])
}

fn longer_than_theirs(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server(
        "write-bw -s 65536 -n 20",
        ("ib_write_bw", "-s 1024 -n 20"),
        nothing,
    )?;
    says(&ours, 1, &["-s", NEED])
}

fn longer_sends(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) = field.with_server(
        "send-bw -s 65536 -n 20",
        ("ib_send_bw", "-s 1024 -n 20"),
        nothing,
    )?;
    ensure!(theirs.status != 0, "a receive took more than it holds");
    says(&ours, 1, &["peer"])
}

fn longer_sends_of_theirs(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) = field.with_client(
        "send-bw -s 1024 -n 20",
        ("ib_send_bw", "-s 65536 -n 20"),
        nothing,
    )?;
    ensure!(theirs.status != 0, "our receive took more than it holds");
    says(&ours, 1, &["the peer sent a message longer than our -s"])
}

fn more_qps(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server(
        "write-bw -q 4 -n 20 --connect-timeout 5",
        ("ib_write_bw", "-q 2 -n 20"),
        nothing,
    )?;
    says(&ours, 1, &["-q"])
}

fn more_sends(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("send-bw -n 40", ("ib_send_bw", "-n 20"), nothing)?;
    says(&ours, 1, &["peer"])
}

fn smaller_mtu(field: &mut Field<'_>) -> Result<()> {
    let both = field.with_server("write-bw -n 20", ("ib_write_bw", "-n 20 -m 256"), nothing)?;
    says(&both.0, 0, &["Mtu             : 256[B]"])?;
    both_pass(&both)
}

fn smaller_mtu_of_client(field: &mut Field<'_>) -> Result<()> {
    let both = field.with_client("read-bw -n 20", ("ib_read_bw", "-n 20 -m 512"), nothing)?;
    says(&both.0, 0, &["Mtu             : 512[B]"])?;
    both_pass(&both)
}
