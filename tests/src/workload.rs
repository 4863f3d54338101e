//! Random verbs programs on two simulated devices, checked against a reference model.
//!
//! Each run has RC connections with programs of every RC operation. Half of the runs have queue pairs of
//! all services beside them (`mixed`).

mod mixed;
mod pauses;
mod plan;
mod post;
mod program;
mod run;
mod setup;
mod watched;

pub use mixed::{LinkPlan, Message, MessageKind, MixedPlan, PoolPlan};
pub use plan::{Connection, End, Mode, Plan};
pub use program::{Kind, Layout, Op, Piece, Program};
pub use run::{Failure, Report, run};
