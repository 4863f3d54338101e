//! The options of `roce lab`.

use clap::{Args, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  roce lab up                                               two hosts, client and server, on one cable
  roce lab exec server roce write-bw -d afxdp:eth0          a server on one ...
  roce lab exec client roce write-bw -d afxdp:eth0 192.168.77.2   ... and its client on the other
  roce lab down                                             as if they had never been";

/// Options of the lab.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES, disable_version_flag = true)]
pub(super) struct LabOptions {
    #[command(subcommand)]
    pub(super) action: LabAction,
}

/// What is done with the lab.
#[derive(Clone, Debug, Eq, PartialEq, Subcommand)]
pub enum LabAction {
    /// Make two hosts: network namespaces roce-client (192.168.77.1, fd77::1) and roce-server (.2, ::2)
    #[command(disable_version_flag = true)]
    Up(LabUp),
    /// Remove them and all that is in them
    #[command(disable_version_flag = true)]
    Down,
    /// Run a command on one of them
    #[command(disable_version_flag = true)]
    Exec {
        /// The host
        side: Side,
        /// The command and its arguments
        #[arg(
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "CMD"
        )]
        command: Vec<String>,
    },
}

/// How the hosts are made.
#[derive(Args, Clone, Debug, Eq, PartialEq)]
pub struct LabUp {
    /// MTU of the cable
    #[arg(long, value_name = "BYTES", default_value_t = 4200, value_parser = clap::value_parser!(u32).range(576..=65_535))]
    pub mtu: u32,
    /// Handle what a host receives on the other CPU: for one-way streams to a receiver that sleeps
    #[arg(long)]
    pub steer: bool,
    /// Also make interfaces eth0.ID on a VLAN, with 192.168.78.1 and .2, fd78::1 and ::2
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub vlan: Option<u16>,
    /// Shape with netem, as in "delay 50us loss 0.1%"; AF_XDP frames go past it, see --impair
    #[arg(long, value_name = "WORDS")]
    pub netem: Option<String>,
}

/// A host of the lab.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Side {
    /// 192.168.77.1 and fd77::1.
    Client,
    /// 192.168.77.2 and fd77::2.
    Server,
}
