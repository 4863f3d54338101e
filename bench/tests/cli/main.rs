//! The command `roce` as its users meet it: whole processes on the loopback interface.
#![expect(clippy::unwrap_used, reason = "a step that fails ends the test")]

mod capture;
mod compare;
mod compat;
mod errors;
mod failures;
mod forms;
mod hand;
mod honesty;
mod lab;
mod matrix;
mod mismatch;
mod network;
mod options;
mod pace;
mod pairs;
mod process;
mod rdma;
mod services;
