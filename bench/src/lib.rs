//! perftest's eight tests over every RoCE backend there is: the options, the exchange with the peer,
//! the statistics and the tables. The loops that move data are in the runner.
//!
//! A run goes `cli` (words) → [`spec::Spec`] (data) → runner, which talks to its peer through
//! [`peer`] and hands its measurements to `report`.
#![warn(missing_docs)]

pub mod backend;
pub mod capture;
pub mod cli;
pub mod compare;
pub mod devices;
pub mod exit;
pub mod json;
pub mod lab;
pub mod output;
pub mod peer;
pub mod program;
pub mod report;
pub mod run;
pub mod spec;
pub mod stats;
