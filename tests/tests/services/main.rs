//! What each service and object does, in virtual time: UC, UD, shared receive queues, memory windows,
//! completion queues, draining and destroying.

mod cq;
mod lifecycle;
mod srq;
mod turns;
mod uc;
mod uc_loss;
mod ud;
mod windows;
