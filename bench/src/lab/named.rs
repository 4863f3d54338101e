//! `roce lab`: the two hosts with names, for as long as somebody wants them.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::Result;

use super::hosts::{CLIENT, INTERFACE, SERVER};
use crate::cli::{LabAction, LabUp};
use crate::exit::{environment, usage};

const NAMES: [&str; 2] = ["roce-client", "roce-server"];

/// Does what was asked for. Returns the exit status.
///
/// # Errors
///
/// A command of iproute2 fails, which takes root; `exec` returns only if it can't run the command.
pub fn run(action: &LabAction) -> Result<u8> {
    match action {
        LabAction::Up(up) => {
            if let Some(name) = NAMES.into_iter().find(|name| exists(name)) {
                return Err(usage(format!(
                    "{name} is there already: roce lab down removes it"
                )));
            }
            if let Err(error) = make(up) {
                remove();
                return Err(error);
            }
            println!(
                "client {} {}, server {} {}: interface {INTERFACE}, MTU {}\n\
                 roce lab exec server COMMAND, roce lab exec client COMMAND, roce lab down",
                CLIENT[0], CLIENT[1], SERVER[0], SERVER[1], up.mtu
            );
            Ok(0)
        }
        LabAction::Down => {
            remove();
            Ok(0)
        }
        LabAction::Exec { side, command } => {
            let name = NAMES[*side as usize];
            if !exists(name) {
                return Err(usage(format!("there is no {name}: roce lab up makes it")));
            }
            let error = Command::new("ip")
                .args(["netns", "exec", name])
                .args(command)
                .exec();
            Err(environment(format!("run ip (package iproute2): {error}")))
        }
    }
}

fn exists(name: &str) -> bool {
    std::path::Path::new("/run/netns").join(name).exists()
}

fn make(up: &LabUp) -> Result<()> {
    for name in NAMES {
        ip(&format!("netns add {name}"))?;
    }
    let [client, server] = NAMES;
    ip(&format!(
        "-n {client} link add {INTERFACE} numrxqueues 1 numtxqueues 1 type veth \
         peer name {INTERFACE} numrxqueues 1 numtxqueues 1 netns {server}"
    ))?;
    for (number, (name, [v4, v6])) in NAMES.into_iter().zip([CLIENT, SERVER]).enumerate() {
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} link set {INTERFACE} mtu {} up", up.mtu))?;
        addresses(name, INTERFACE, v4, v6)?;
        if let Some(id) = up.vlan {
            let vlan = format!("{INTERFACE}.{id}");
            ip(&format!(
                "-n {name} link add link {INTERFACE} name {vlan} type vlan id {id}"
            ))?;
            ip(&format!("-n {name} link set {vlan} up"))?;
            addresses(
                name,
                &vlan,
                &v4.replace("77", "78"),
                &v6.replace("77", "78"),
            )?;
        }
        if up.steer {
            // The CPU that the other host's sender is not on.
            let mask = 1 << number;
            let queue = format!("/sys/class/net/{INTERFACE}/queues/rx-0/rps_cpus");
            inside(name, &["sh", "-c", &format!("echo {mask:x} > {queue}")])?;
        }
        if let Some(words) = &up.netem {
            let line = format!("tc qdisc add dev {INTERFACE} root netem {words}");
            inside(name, &line.split_whitespace().collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

fn addresses(name: &str, interface: &str, v4: &str, v6: &str) -> Result<()> {
    ip(&format!("-n {name} addr add {v4}/24 dev {interface}"))?;
    ip(&format!("-n {name} addr add {v6}/64 dev {interface} nodad"))
}

/// Removes both hosts, whatever of them is there.
fn remove() {
    for name in NAMES.into_iter().filter(|name| exists(name)) {
        if let Err(error) = ip(&format!("netns del {name}")) {
            eprintln!("roce: {error}");
        }
    }
}

fn inside(name: &str, command: &[&str]) -> Result<()> {
    let words = [&["netns", "exec", name][..], command].concat();
    run_ip(&words)
}

fn ip(words: &str) -> Result<()> {
    run_ip(&words.split_whitespace().collect::<Vec<_>>())
}

fn run_ip(words: &[&str]) -> Result<()> {
    let output = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| environment(format!("run ip (package iproute2): {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(environment(format!(
        "ip {}: {} (it takes root)",
        words.join(" "),
        said.trim()
    )))
}
