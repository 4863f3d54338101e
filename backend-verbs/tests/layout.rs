//! The structures of `src/sys.rs` against the header of this machine, where it has one: a C compiler compares sizes
//! and offsets. Without a header (Debian's libibverbs-dev) the assertions in `src/sys.rs` stand alone.

#[allow(dead_code, reason = "the product uses what is not compared")]
#[path = "../src/sys.rs"]
mod sys;

use core::fmt::Write as _;
use core::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

use sys::ex::{ACCESS_RELAXED_ORDERING, INIT_ATTR_SEND_OPS, ibv_qp_ex, ibv_qp_init_attr_ex, op};
use sys::*;

/// Lines of C that compare a structure's size, and the places of its fields, with ours.
macro_rules! compare {
    ($text:ident: $($kind:ident { $($field:ident $(as $name:literal)?),* } $($sized:ident)?;)*) => {$(
        $(compare!(@size $text $kind $sized);)?
        $({
            let name = [$($name,)? stringify!($field)][0];
            let _infallible = writeln!(
                $text,
                "_Static_assert(offsetof(struct {0}, {1}) == {2}, \"{0}.{1}\");",
                stringify!($kind), name, offset_of!($kind, $field)
            );
        })*
    )*};
    (@size $text:ident $kind:ident $sized:ident) => {
        let _infallible = writeln!(
            $text,
            "_Static_assert(sizeof(struct {0}) == {1}, \"{0}\");",
            stringify!($kind), size_of::<$kind>()
        );
    };
}

fn program() -> String {
    let mut text = String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n");
    compare! { text:
        ibv_device { transport_type, name, dev_name, ibdev_path } sized;
        ibv_context_ops { alloc_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv } sized;
        ibv_context { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat } sized;
        ibv_device_attr { node_guid, max_qp, max_cqe, max_qp_rd_atom, max_srq_sge, max_pkeys, phys_port_cnt } sized;
        ibv_port_attr { state, gid_tbl_len, max_msg_sz, lid, active_width, phys_state, link_layer };
        ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex } sized;
        ibv_mr { lkey, rkey } sized;
        ibv_mw { rkey, handle };
        ibv_comp_channel { fd };
        ibv_cq { channel, cq_context, cqe };
        ibv_qp { send_cq, srq, qp_num, qp_type };
        ibv_ah_attr { grh, dlid, sl, is_global, port_num } sized;
        ibv_srq_init_attr { attr } sized;
        ibv_qp_init_attr { send_cq, srq, cap, qp_type, sq_sig_all } sized;
        ibv_qp_attr { path_mtu, qkey, qp_access_flags, cap, ah_attr, pkey_index, max_rd_atomic, timeout, rnr_retry } sized;
        ibv_sge { addr, length, lkey } sized;
        ibv_send_wr { next, sg_list, num_sge, opcode, send_flags, imm_or_rkey as "imm_data", wr, bind_mw } sized;
        ibv_recv_wr { next, sg_list, num_sge } sized;
        ibv_wc { status, opcode, vendor_err, byte_len, imm_or_rkey as "imm_data", qp_num, src_qp, wc_flags } sized;
        ibv_async_event { element, event_type } sized;
        ibv_qp_init_attr_ex { cap, comp_mask, pd, xrcd, source_qpn, send_ops_flags } sized;
        ibv_qp_ex { comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_bind_mw, wr_rdma_read, wr_rdma_write_imm,
            wr_send_inv, wr_set_ud_addr, wr_set_inline_data, wr_set_sge, wr_set_sge_list, wr_start, wr_complete, wr_abort };
    }
    // Grows at its start: what counts is where things are from its end.
    for (name, place) in [
        ("sz", offset_of!(verbs_context, sz)),
        ("query_port", offset_of!(verbs_context, query_port)),
        ("create_qp_ex", offset_of!(verbs_context, create_qp_ex)),
    ] {
        let from_end = offset_of!(verbs_context, context) - place;
        let _infallible = writeln!(
            text,
            "_Static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, {name}) == {from_end}, \"{name}\");"
        );
    }
    for (name, value) in [
        ("IBV_WR_SEND_WITH_INV", wr::SEND_WITH_INV),
        ("IBV_WR_BIND_MW", wr::BIND_MW),
        ("IBV_WC_RECV_RDMA_WITH_IMM", wc::RECV_RDMA_WITH_IMM),
        ("IBV_QP_DEST_QPN", mask::DEST_QPN),
        ("IBV_QP_MAX_DEST_RD_ATOMIC", mask::MAX_DEST_RD_ATOMIC),
        ("IBV_QPT_UD", QPT_UD),
        ("IBV_MW_TYPE_2", MW_TYPE_2),
        ("IBV_PORT_ACTIVE", PORT_ACTIVE),
    ] {
        let _infallible = writeln!(text, "_Static_assert({name} == {value}, \"{name}\");");
    }
    for (name, value) in [
        (
            "IBV_QP_INIT_ATTR_SEND_OPS_FLAGS",
            u64::from(INIT_ATTR_SEND_OPS),
        ),
        (
            "IBV_ACCESS_RELAXED_ORDERING",
            u64::from(ACCESS_RELAXED_ORDERING),
        ),
        (
            "IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD",
            op::ATOMIC_FETCH_AND_ADD,
        ),
        ("IBV_QP_EX_WITH_SEND_WITH_INV", op::SEND_WITH_INV),
    ] {
        let _infallible = writeln!(text, "_Static_assert({name} == {value}, \"{name}\");");
    }
    text
}

/// Runs the C compiler over a program; `None` if there is none.
fn compiles(program: &str) -> Option<Result<(), String>> {
    let mut child = Command::new("cc")
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    std::io::Write::write_all(&mut child.stdin.take()?, program.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    Some(if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    })
}

#[test]
fn our_structures_are_those_of_the_header() {
    match compiles("#include <infiniband/verbs.h>\n") {
        None => println!("skipped: no C compiler"),
        Some(Err(_)) => println!("skipped: no infiniband/verbs.h (package libibverbs-dev)"),
        Some(Ok(())) => {
            if let Some(Err(words)) = compiles(&program()) {
                panic!("{words}");
            }
        }
    }
}
