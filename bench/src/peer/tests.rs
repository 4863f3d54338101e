//! Our end against a peer that follows a script of bytes, as strict as a stock one: one read per message.

mod faults;
mod mismatch;
mod order;
mod scripted;
mod sockets;
