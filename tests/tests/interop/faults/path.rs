//! Firewalls, wrong rows of the GID table, an address that goes away.

use anyhow::{Result, ensure};
use roce_tests::guest::{Guest, net};

use super::{Fault, Field, both_pass, nothing, once_it_runs, says};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "a firewall of the guest drops UDP 4791",
        play: their_udp,
    },
    Fault {
        name: "a firewall of ours drops UDP 4791",
        play: our_udp,
    },
    Fault {
        name: "a firewall of the guest drops the TCP port",
        play: their_tcp,
    },
    Fault {
        name: "a firewall of the guest drops UDP 4791 before our server",
        play: udp_before_our_server,
    },
    Fault {
        name: "a firewall of ours drops the TCP port's answers",
        play: our_tcp,
    },
    Fault {
        name: "a GID row of another family than the stock server's",
        play: other_family,
    },
    Fault {
        name: "a GID row of another family than the stock client's",
        play: other_family_of_client,
    },
    Fault {
        name: "a GID row that is not there",
        play: no_such_row,
    },
    Fault {
        name: "a link-local GID row and a stock server's routable one",
        play: other_scope,
    },
    Fault {
        name: "the guest's address goes away in mid-run",
        play: address_gone,
    },
    Fault {
        name: "the guest's address goes away before our server",
        play: client_address_gone,
    },
];

const DEAD_END: &[&str] = &[
    "IBV_WC_RETRY_EXC_ERR (12)",
    "a firewall or a NAT drops UDP 4791",
];

/// Drops packets to a port as they reach us.
fn block_ours(guest: &Guest, rule: &str) -> Result<()> {
    guest.namespace().shell(&format!(
        "nft add table inet faults && \
         nft 'add chain inet faults input {{ type filter hook input priority 0; }}' && \
         nft add rule inet faults input {rule} drop"
    ))?;
    Ok(())
}

fn unblock_ours(guest: &Guest) -> Result<()> {
    guest.namespace().shell("nft delete table inet faults")?;
    Ok(())
}

fn their_udp(field: &mut Field<'_>) -> Result<()> {
    field.guest.block("udp", 4791)?;
    let fought = field.with_server("write-bw -n 20", ("ib_write_bw", "-n 20"), nothing);
    field.guest.unblock()?;
    says(&fought?.0, 1, DEAD_END)
}

fn our_udp(field: &mut Field<'_>) -> Result<()> {
    block_ours(field.guest, "udp dport 4791")?;
    let fought = field.with_server("read-bw -n 20", ("ib_read_bw", "-n 20"), nothing);
    unblock_ours(field.guest)?;
    says(&fought?.0, 1, DEAD_END)
}

fn their_tcp(field: &mut Field<'_>) -> Result<()> {
    let port = field.ground.port;
    field.guest.block("tcp", port)?;
    let fought = field.with_server(
        "write-bw -n 20 --connect-timeout 2",
        ("ib_write_bw", "-n 20"),
        nothing,
    );
    field.guest.unblock()?;
    let port = port.to_string();
    says(&fought?.0, 1, &[net::GUEST_V4, &port, "firewall"])
}

fn our_tcp(field: &mut Field<'_>) -> Result<()> {
    let port = field.ground.port;
    block_ours(field.guest, &format!("tcp sport {port}"))?;
    let fought = field.with_server(
        "write-bw -n 20 --connect-timeout 2",
        ("ib_write_bw", "-n 20"),
        nothing,
    );
    unblock_ours(field.guest)?;
    let port = port.to_string();
    says(&fought?.0, 1, &[net::GUEST_V4, &port, "firewall"])
}

/// rxe takes perftest's seven retries for endless ones, so it is we who have to notice.
fn udp_before_our_server(field: &mut Field<'_>) -> Result<()> {
    block_ours(field.guest, "udp dport 4791")?;
    let fought = field.with_client("write-bw -n 20", ("ib_write_bw", "-n 20"), nothing);
    unblock_ours(field.guest)?;
    says(
        &fought?.0,
        1,
        &[
            "in 60",
            "no packet of the peer's has arrived: a firewall or a NAT may drop UDP 4791",
        ],
    )
}

fn other_family(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) = field.with_server(
        "write-bw -x 2 -n 20",
        ("ib_write_bw", "-x 1 -n 20"),
        nothing,
    )?;
    ensure!(
        theirs.status != 0,
        "stock perftest took a GID of another family"
    );
    says(&ours, 1, &["GID families differ", "-x"])
}

fn other_family_of_client(field: &mut Field<'_>) -> Result<()> {
    let (ours, theirs) = field.with_client(
        "write-bw -x 1 -n 20",
        ("ib_write_bw", "-x 2 -n 20"),
        nothing,
    )?;
    ensure!(
        theirs.status != 0,
        "stock perftest took a GID of another family"
    );
    says(&ours, 1, &["GID families differ", "-x"])
}

/// Both are of one link, so it works.
fn other_scope(field: &mut Field<'_>) -> Result<()> {
    // A link-local address is checked for a second before the kernel answers for it.
    let ours = net::link_local(net::OUR_MAC);
    field.guest.must(&format!(
        "for i in $(seq 10); do ping6 -c 1 -w 1 -I eth0 {ours} && exit 0; usleep 200000; done; exit 1"
    ))?;
    let both = field.with_server(
        "write-bw -x 0 -n 20",
        ("ib_write_bw", "-x 2 -n 20"),
        nothing,
    )?;
    both_pass(&both)
}

fn no_such_row(field: &mut Field<'_>) -> Result<()> {
    let (ours, _) = field.with_server("write-bw -x 9 -n 20", ("ib_write_bw", "-n 20"), nothing)?;
    ensure!(ours.status != 0, "a GID row that is not there was used");
    says(&ours, ours.status, &["GID", "9"])
}

fn drop_address(guest: &mut Guest) -> Result<()> {
    once_it_runs(guest)?;
    let (ip, v4) = (net::GUEST_IP, net::GUEST_V4);
    guest.must(&format!("{ip} addr del {v4}/24 dev eth0"))?;
    Ok(())
}

fn restore_address(guest: &mut Guest) -> Result<()> {
    let (ip, v4) = (net::GUEST_IP, net::GUEST_V4);
    guest.must(&format!("{ip} addr add {v4}/24 dev eth0"))?;
    Ok(())
}

fn address_gone(field: &mut Field<'_>) -> Result<()> {
    let fought = field.with_server("write-bw -D 20", ("ib_write_bw", "-D 20"), drop_address);
    restore_address(field.guest)?;
    says(&fought?.0, 1, &["UDP 4791"])
}

fn client_address_gone(field: &mut Field<'_>) -> Result<()> {
    let fought = field.with_client("write-bw -D 20", ("ib_write_bw", "-D 20"), drop_address);
    restore_address(field.guest)?;
    let ours = fought?.0;
    ensure!(
        ours.status != 0,
        "the run succeeded without an address:\n{}",
        ours.text
    );
    says(&ours, 1, &["peer"])
}
