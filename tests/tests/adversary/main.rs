//! A peer that speaks packets, not queue pairs, and means harm.
//!
//! After each attack the victim's memory outside of what it granted is byte-identical, its queue pair and
//! counters are as the tables say, and connections of others on the same device work: those from before
//! and new ones.

mod answers;
mod attack;
mod floods;
mod memory;
mod naks;
mod psns;
mod repeats;
mod sequence;
