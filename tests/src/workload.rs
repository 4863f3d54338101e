//! Random verbs programs on two simulated devices, checked against a reference model.

mod plan;
mod post;
mod program;
mod run;
mod setup;

pub use plan::{Connection, End, Mode, Plan};
pub use program::{Kind, Layout, Op, Piece, Program};
pub use run::{Failure, Report, run};
