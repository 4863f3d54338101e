//! An anonymous network namespace, held open by a child process.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// A network namespace that ends with the process that made it.
#[derive(Debug)]
pub struct Namespace {
    /// `cat` on a pipe that only we can write to: it sees the end of file when we die.
    holder: Child,
}

impl Namespace {
    /// Makes a namespace with loopback up and nothing else.
    ///
    /// # Errors
    /// If this process may not make namespaces (it takes root), with the tool's own words.
    pub fn new() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c"])
            // A sysfs of the namespace's own, or programs would see the wrong /sys/class/net.
            .arg("mount -t sysfs sysfs /sys && echo made && exec cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run unshare (package util-linux)")?;
        let mut made = [0u8; 5];
        let answer = holder
            .stdout
            .as_mut()
            .context("unshare's stdout is not piped")?;
        if answer.read_exact(&mut made).is_err() {
            let _ = holder.wait();
            bail!("cannot make a network namespace: unshare failed (root is needed)");
        }
        let namespace = Self { holder };
        namespace.shell("ip link set lo up")?;
        Ok(namespace)
    }

    /// The process id by which tools like `ip` name the namespace.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.holder.id()
    }

    /// Prepares a command that runs in the namespace and is killed when this process dies.
    ///
    /// The kernel ties the latter to the thread that spawns it, so spawn from one that stays.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--net",
            "--mount",
            "-t",
            &self.holder.id().to_string(),
            "--",
        ]);
        command.args(["setpriv", "--pdeathsig", "KILL", program]);
        command
    }

    /// Runs a line of shell in the namespace and returns what it printed.
    ///
    /// # Errors
    /// If it exits with anything but 0, with its stderr.
    pub fn shell(&self, line: &str) -> Result<String> {
        let output = self
            .command("sh")
            .args(["-c", line])
            .output()
            .context("cannot run nsenter")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "`{line}` failed: {}",
            stderr.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether somebody in the namespace listens on a TCP port, over IPv4 or IPv6.
    #[must_use]
    pub fn listens_on(&self, port: u16) -> bool {
        let local = format!(":{port:04X} ");
        ["tcp", "tcp6"].iter().any(|table| {
            let path = format!("/proc/{}/net/{table}", self.holder.id());
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The local address, then the remote one, then the state: 0A is LISTEN.
            text.lines()
                .any(|line| line.contains(&local) && line.contains(":0000 0A "))
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Writes a MAC address the way `ip`, QEMU and tshark read it.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
