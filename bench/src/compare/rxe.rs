//! `--create-rxe`: a soft-RoCE device for as long as the comparison takes.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::exit::environment;

/// A device of ours, removed when dropped.
#[derive(Debug)]
pub(super) struct TemporaryRxe {
    name: String,
}

impl TemporaryRxe {
    /// Loads the driver and adds a device on an interface.
    ///
    /// # Errors
    ///
    /// The kernel has no such driver, the interface is none, or this process may not.
    pub(super) fn add(netdev: &str) -> Result<Self> {
        let name = format!("roce{}", std::process::id());
        // Where it is built in, or loaded, there may be no modprobe.
        let loaded = run("modprobe", &["rdma_rxe"]);
        let words = ["link", "add", &name, "type", "rxe", "netdev", netdev];
        match run("rdma", &words) {
            Ok(()) => Ok(Self { name }),
            Err(reason) => {
                let loaded = loaded
                    .err()
                    .map_or_else(String::new, |why| format!("; before it, {why}"));
                Err(environment(format!(
                    "--create-rxe {netdev}: {reason}{loaded}: it takes root, a kernel with the module rdma_rxe, and \
                     an interface that is up"
                )))
            }
        }
    }
}

impl Drop for TemporaryRxe {
    fn drop(&mut self) {
        if let Err(reason) = run("rdma", &["link", "delete", &self.name]) {
            eprintln!("roce: {} is still there: {reason}", self.name);
        }
    }
}

/// Runs a program to its end; what it said if it failed.
fn run(program: &str, words: &[&str]) -> Result<(), String> {
    let line = format!("{program} {}", words.join(" "));
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match program {
            "rdma" => format!("`{line}`: {error} (package iproute2)"),
            _ => format!("`{line}`: {error}"),
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().replace('\n', "; ");
    Err(format!("`{line}` failed: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_none_is_named_with_the_command() {
        let error = TemporaryRxe::add("no-such-interface").unwrap_err();
        assert_eq!(crate::exit::status_of(&error), crate::exit::ENVIRONMENT);
        let text = error.to_string();
        assert!(
            text.starts_with("--create-rxe no-such-interface: `rdma link add roce"),
            "{text}"
        );
        assert!(text.contains("rdma_rxe"), "{text}");
    }
}
