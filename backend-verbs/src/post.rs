//! From work requests to the library's lists, and from its completions back. Nothing is allocated.

use core::ffi::c_int;
use core::fmt;

use roce_engine::verbs::{
    Completion, CqError, Payload, PostError, QpState, RecvWr, SendOp, SendWr, Service, Sge, serves,
};

use crate::convert;
use crate::error::errno_words;
use crate::events::Events;
use crate::objects::{Objects, QpEntry};
use crate::raw::Object;
use crate::raw::post::{self, Batch, Bound, COMPLETIONS, PIECES, Refused, empty_recv, empty_send};
use crate::raw::wr::{Binding, NoSuchCall, Places, Writer};
use crate::sys::{
    ibv_ah, ibv_cq, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc, send, wr_atomic, wr_remote,
};

/// A QP without a call that it was seen to have when it was made.
const UNWRITABLE: PostError = PostError::Device(libc::EOPNOTSUPP);

/// The longest message: 2^31 bytes.
const MAX_MESSAGE: u64 = 1 << 31;

/// The places that lists and completions are built in.
pub(crate) struct Scratch {
    sends: Batch<ibv_send_wr>,
    receives: Batch<ibv_recv_wr>,
    places: Places,
    completions: Box<[ibv_wc; COMPLETIONS]>,
    /// Completions taken so far.
    pub(crate) taken: u64,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scratch({} completions taken)", self.taken)
    }
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            sends: Batch::new(empty_send()),
            receives: Batch::new(empty_recv()),
            places: Box::new([ibv_sge::default(); PIECES]),
            completions: Box::new([ibv_wc::default(); COMPLETIONS]),
            taken: 0,
        }
    }

    /// Posts send requests: as many at a time as a list has room for.
    pub(crate) fn send(
        &mut self,
        objects: &Objects,
        qp: &QpEntry,
        requests: &[SendWr<'_>],
        datagram_most: u32,
    ) -> Result<(), PostError> {
        if !matches!(
            qp.state,
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err
        ) {
            return Err(PostError::State(qp.state));
        }
        let room = qp.flight.room(qp.init.caps.max_send_wr);
        if requests.len() <= room && convert::all_in(requests, qp.operations) {
            return self.write(objects, qp, requests, datagram_most);
        }
        let mut posted = 0;
        let batch = &mut self.sends;
        batch.clear();
        for (index, request) in requests.iter().enumerate() {
            let pieces = match check_send(qp, request, datagram_most) {
                Ok(pieces) => pieces,
                Err(error) => {
                    // What comes before it is posted.
                    flush_sends(qp, batch, posted)?;
                    return Err(error);
                }
            };
            if !batch.has_room(pieces) {
                flush_sends(qp, batch, posted)?;
                posted = index;
                batch.clear();
            }
            if let Err(error) = add_send(objects, batch, request) {
                flush_sends(qp, batch, posted)?;
                return Err(error);
            }
        }
        flush_sends(qp, batch, posted)
    }

    /// Posts send requests by `ibv_wr_*`: all of them or none. The queue has room for them.
    fn write(
        &mut self,
        objects: &Objects,
        qp: &QpEntry,
        requests: &[SendWr<'_>],
        datagram_most: u32,
    ) -> Result<(), PostError> {
        let mut writer = qp.raw.start(&mut self.places).ok_or(UNWRITABLE)?;
        let finish = |writer: Writer<'_>| {
            let done = writer.complete();
            done.map_err(|errno| words(Refused { posted: 0, errno }, 0))
        };
        for request in requests {
            let checked = check_send(qp, request, datagram_most)
                .and_then(|_| Ok((binding(objects, &request.op)?, target(objects, request)?)));
            let (binding, target) = match checked {
                Ok(checked) => checked,
                Err(error) => {
                    // What comes before it is posted.
                    finish(writer)?;
                    return Err(error);
                }
            };
            let mut flags = convert::send_flags(request.flags);
            if matches!(request.payload, Payload::Inline(_)) && !request.op.is_local() {
                // rxe's provider copies the bytes and has the kernel look at the flag.
                flags |= send::INLINE;
            }
            let begun = writer.request(request.wr_id, flags, &request.op, binding.as_ref());
            begun.map_err(|NoSuchCall| UNWRITABLE)?;
            if let Some((ah, qpn, qkey)) = target {
                let told = writer.to(ah, qpn, qkey);
                told.map_err(|NoSuchCall| UNWRITABLE)?;
            }
            let given = match request.payload {
                _ if request.op.is_local() => Ok(()),
                Payload::Inline(bytes) => writer.copied(bytes),
                Payload::Sges(sges) => writer.pieces(sges),
            };
            given.map_err(|NoSuchCall| UNWRITABLE)?;
        }
        finish(writer)
    }

    /// Posts receives with `post`: to a QP or an SRQ.
    pub(crate) fn receive(
        &mut self,
        requests: &[RecvWr<'_>],
        max_sge: u32,
        post: impl Fn(&Batch<ibv_recv_wr>) -> Result<(), Refused>,
    ) -> Result<(), PostError> {
        let mut posted = 0;
        let batch = &mut self.receives;
        batch.clear();
        let flush = |batch: &Batch<ibv_recv_wr>, before: usize| {
            if batch.is_empty() {
                return Ok(());
            }
            post(batch).map_err(|error| words(error, before))
        };
        for (index, request) in requests.iter().enumerate() {
            let pieces = request.sges.len();
            if pieces > max_sge as usize || pieces > PIECES {
                flush(batch, posted)?;
                return Err(PostError::TooManySges);
            }
            if !batch.has_room(pieces) {
                flush(batch, posted)?;
                posted = index;
                batch.clear();
            }
            add_pieces(batch, request.sges);
            batch.push(pieces, |start, count| ibv_recv_wr {
                wr_id: request.wr_id,
                sg_list: start,
                num_sge: count,
                ..empty_recv()
            });
        }
        flush(batch, posted)
    }

    /// Takes completions.
    #[inline]
    pub(crate) fn poll(
        &mut self,
        cq: &Object<ibv_cq>,
        device: &str,
        events: &mut Events,
        out: &mut [Completion],
    ) -> Result<usize, CqError> {
        let most = out.len().min(COMPLETIONS);
        let raw = &mut self.completions[..most];
        let count = cq.poll(raw).map_err(|code| unpollable(device, code))?;
        for (to, from) in out.iter_mut().zip(&raw[..count]) {
            *to = convert::completion(from);
            if from.status != 0 && from.vendor_err != 0 && from.status != 5 {
                events.vendor_error(device, from);
            }
        }
        self.taken += count as u64;
        Ok(count)
    }
}

#[cold]
fn unpollable(device: &str, code: c_int) -> CqError {
    CqError::Device(format!(
        "{device}: its driver cannot poll the completion queue (ibv_poll_cq returned {code}{}): the queue overflowed \
         or the device is gone",
        match code {
            ..=-2 => format!(", {}", errno_words(-code)),
            _ => String::new(),
        }
    ))
}

#[inline]
fn flush_sends(qp: &QpEntry, batch: &Batch<ibv_send_wr>, before: usize) -> Result<(), PostError> {
    if batch.is_empty() {
        return Ok(());
    }
    qp.raw
        .post_send(batch)
        .map_err(|error| words(error, before))
}

/// Says what a provider's errno means: all of them tell a full queue by ENOMEM.
fn words(refused: Refused, before: usize) -> PostError {
    match refused.errno {
        // rxe's `ibv_wr_*` tells it by the second.
        libc::ENOMEM | libc::ENOSPC => PostError::QueueFull {
            posted: before + refused.posted,
        },
        errno => PostError::Device(errno),
    }
}

/// Checks a request as our engine does; returns the pieces that it has.
#[inline]
fn check_send(qp: &QpEntry, request: &SendWr<'_>, datagram_most: u32) -> Result<usize, PostError> {
    if !serves(qp.init.service, &request.op) {
        return Err(PostError::Unsupported);
    }
    let (pieces, length) = match request.payload {
        Payload::Sges(sges) => {
            if sges.len() > qp.init.caps.max_send_sge as usize || sges.len() > PIECES {
                return Err(PostError::TooManySges);
            }
            let length = sges.iter().map(|sge| u64::from(sge.length)).sum();
            (sges.len(), length)
        }
        Payload::Inline(bytes) => {
            if request.op.is_fetch() {
                return Err(PostError::InlineFetch);
            }
            if bytes.len() > qp.init.caps.max_inline as usize {
                return Err(PostError::InlineTooLong);
            }
            (1, bytes.len() as u64)
        }
    };
    if length > MAX_MESSAGE {
        return Err(PostError::MessageTooLong);
    }
    if request.op.is_atomic() && length != 8 {
        return Err(PostError::AtomicLength);
    }
    if qp.init.service == Service::Ud && length > u64::from(datagram_most) {
        return Err(PostError::DatagramTooLong);
    }
    if request.op.is_fetch() && qp.attr.max_rd_atomic == Some(0) && qp.state != QpState::Err {
        return Err(PostError::Unsupported);
    }
    Ok(pieces)
}

#[inline]
fn add_pieces<W: post::Linked>(batch: &mut Batch<W>, sges: &[Sge]) {
    for sge in sges {
        batch.piece(sge.into());
    }
}

impl From<&Sge> for ibv_sge {
    #[inline]
    fn from(sge: &Sge) -> Self {
        Self {
            addr: sge.addr,
            length: sge.length,
            lkey: sge.lkey.0,
        }
    }
}

/// Where a datagram goes: the way, QPN and Q_Key.
type Target<'o> = (&'o Object<ibv_ah>, u32, u32);

/// Returns where a request goes if it is a datagram.
#[inline]
fn target<'o>(objects: &'o Objects, request: &SendWr<'_>) -> Result<Option<Target<'o>>, PostError> {
    let SendOp::Datagram { ah, qpn, qkey, .. } = request.op else {
        return Ok(None);
    };
    let ah = objects.ahs.get(ah.0).ok_or(PostError::Unsupported)?;
    Ok(Some((&ah.raw, qpn.value(), qkey.0)))
}

/// Returns how a request binds a window, if it does.
#[inline]
fn binding<'o>(objects: &'o Objects, op: &SendOp) -> Result<Option<Binding<'o>>, PostError> {
    let SendOp::BindMw {
        mw,
        rkey,
        mr,
        addr,
        length,
        access,
    } = *op
    else {
        return Ok(None);
    };
    let window = objects.mws.get(mw.handle).ok_or(PostError::Unsupported)?;
    let region = objects.mrs.get(mr.handle).ok_or(PostError::Unsupported)?;
    let bound = Bound {
        rkey: rkey.0,
        addr,
        length,
        access: convert::access(access),
    };
    Ok(Some((&window.raw, &region.raw, bound)))
}

/// Adds a request that was checked.
#[inline]
fn add_send(
    objects: &Objects,
    batch: &mut Batch<ibv_send_wr>,
    request: &SendWr<'_>,
) -> Result<(), PostError> {
    let remote = remote(objects, &request.op)?;
    let (opcode, imm_or_rkey) = convert::opcode(&request.op);
    let mut flags = convert::send_flags(request.flags);
    let mut bind_mw = empty_send().bind_mw;
    if let Some((window, region, bound)) = binding(objects, &request.op)? {
        bind_mw = post::bind(window, region, &bound);
    }
    let pieces = match request.payload {
        Payload::Sges(sges) => {
            add_pieces(batch, sges);
            sges.len()
        }
        Payload::Inline(bytes) => {
            flags |= send::INLINE;
            batch.piece(ibv_sge {
                addr: bytes.as_ptr() as u64,
                length: bytes.len() as u32,
                lkey: 0,
            });
            1
        }
    };
    batch.push(pieces, |start, count| ibv_send_wr {
        wr_id: request.wr_id,
        sg_list: start,
        num_sge: count,
        opcode,
        send_flags: flags,
        imm_or_rkey,
        wr: remote,
        bind_mw,
        ..empty_send()
    });
    Ok(())
}

#[inline]
fn remote(objects: &Objects, op: &SendOp) -> Result<wr_remote, PostError> {
    Ok(match *op {
        SendOp::Write { addr, rkey }
        | SendOp::WriteImm { addr, rkey, .. }
        | SendOp::Read { addr, rkey } => post::rdma(addr, rkey.0),
        SendOp::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        } => wr_remote {
            atomic: wr_atomic {
                remote_addr: addr,
                compare_add: compare,
                swap,
                rkey: rkey.0,
            },
        },
        SendOp::FetchAdd { addr, rkey, add } => wr_remote {
            atomic: wr_atomic {
                remote_addr: addr,
                compare_add: add,
                swap: 0,
                rkey: rkey.0,
            },
        },
        SendOp::Datagram { ah, qpn, qkey, .. } => {
            let ah = objects.ahs.get(ah.0).ok_or(PostError::Unsupported)?;
            post::datagram(&ah.raw, qpn.value(), qkey.0)
        }
        SendOp::Send
        | SendOp::SendImm(_)
        | SendOp::SendInv(_)
        | SendOp::BindMw { .. }
        | SendOp::LocalInv(_) => empty_send().wr,
    })
}
