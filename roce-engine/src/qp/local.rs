//! Requests that send nothing: they are executed once, in their turn, and never again on a retry.

use super::Qp;
use crate::mr::Binding;
use crate::shared::Shared;
use crate::verbs::{SendOp, Status};

impl Qp {
    /// Executes the request at the cursor if it is a local one; true if it was.
    pub(super) fn execute_local(&mut self, shared: &mut Shared) -> bool {
        let number = self.requester.cursor;
        let wqe = *self.requester.queue.at(number);
        if !wqe.op.is_local() {
            return false;
        }
        // A rewind may bring the cursor back over a request that waits for those before it.
        if wqe.arrived == 0 {
            let done = self.perform(shared, &wqe.op);
            let queued = self.requester.queue.at_mut(number);
            match done {
                Ok(()) => {
                    queued.arrived = 1;
                    queued.first_psn = Some(self.requester.cursor_psn);
                }
                Err(status) => {
                    queued.failed = Some(status);
                    self.settle_failed(shared);
                    return true;
                }
            }
        }
        self.requester.cursor = number.wrapping_add(1);
        self.retire_local(shared);
        true
    }

    /// Completes local requests that are the oldest.
    pub(super) fn retire_local(&mut self, shared: &mut Shared) {
        while !self.requester.queue.is_empty() {
            let head = self.requester.queue.at(self.requester.queue.head());
            if !head.op.is_local() || head.arrived == 0 {
                break;
            }
            if self.requester.cursor == self.requester.queue.head() {
                self.requester.cursor = self.requester.cursor.wrapping_add(1);
            }
            self.complete_head(shared, Status::Success);
        }
    }

    fn perform(&self, shared: &mut Shared, op: &SendOp) -> Result<(), Status> {
        let pd = self.init.pd;
        match *op {
            SendOp::BindMw {
                mw,
                rkey,
                mr,
                addr,
                length,
                access,
            } => {
                let region = mr.lkey.0;
                let binding = Binding {
                    region,
                    addr,
                    length,
                    access,
                    qpn: self.qpn,
                };
                if shared.memory.bind(pd, mw, rkey, binding) {
                    Ok(())
                } else {
                    Err(Status::MwBindErr)
                }
            }
            SendOp::LocalInv(rkey) => {
                if shared.memory.invalidate(pd, self.qpn, rkey) {
                    Ok(())
                } else {
                    Err(Status::LocProtErr)
                }
            }
            _ => Ok(()),
        }
    }
}
