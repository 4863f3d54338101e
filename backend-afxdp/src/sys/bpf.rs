//! The `bpf` system call, as far as an XDP program and its map of sockets need it.
//!
//! Its arguments are prefixes of the kernel's `union bpf_attr` (`include/uapi/linux/bpf.h`), which
//! may be given as short as they are used.

use core::ffi::c_long;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Arguments of one command: plain integers without padding, pointers among them as `u64`.
trait Arguments {}

/// Calls `bpf`; pointers inside of `arguments` have to be good for what the command does with them.
fn call<A: Arguments>(command: c_long, arguments: &mut A) -> io::Result<i32> {
    // SAFETY: the pointer and length are those of a live value of integers; each caller in this
    // file fills pointers and lengths from slices that outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *arguments, size_of::<A>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as i32)
}

fn call_for_fd<A: Arguments>(command: c_long, arguments: &mut A) -> io::Result<OwnedFd> {
    let fd = call(command, arguments)?;
    // SAFETY: these commands return a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// A name of at most 15 letters as the kernel has it.
fn name_bytes(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    let len = name.len().min(15);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    bytes
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
}
impl Arguments for MapCreate {}

/// Makes a map from queue numbers to AF_XDP sockets.
pub(crate) fn socket_map(name: &str, queues: u32) -> io::Result<OwnedFd> {
    const XSKMAP: u32 = 17;
    let mut arguments = MapCreate {
        map_type: XSKMAP,
        key_size: 4,
        value_size: 4,
        max_entries: queues,
        map_name: name_bytes(name),
        ..MapCreate::default()
    };
    call_for_fd(0, &mut arguments)
}

#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}
impl Arguments for MapUpdate {}

/// Puts a socket into the map at its queue's number.
pub(crate) fn put_socket(
    map: BorrowedFd<'_>,
    queue: u32,
    socket: BorrowedFd<'_>,
) -> io::Result<()> {
    let value = raw(socket);
    let mut arguments = MapUpdate {
        map_fd: raw(map),
        _padding: 0,
        key: (&raw const queue) as u64,
        value: (&raw const value) as u64,
        flags: 0,
    };
    call(2, &mut arguments).map(drop)
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}
impl Arguments for ProgLoad {}

/// The attach type of XDP programs, of links too.
const ATTACH_XDP: u32 = 37;

/// Loads an XDP program; an error carries the verifier's last words.
pub(crate) fn load_xdp(name: &str, code: &[u64], fragments: bool) -> io::Result<OwnedFd> {
    const TYPE_XDP: u32 = 6;
    const HAS_FRAGS: u32 = 1 << 5;
    let license = c"MIT OR Apache-2.0";
    let mut arguments = ProgLoad {
        prog_type: TYPE_XDP,
        insn_cnt: code.len() as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        prog_flags: if fragments { HAS_FRAGS } else { 0 },
        prog_name: name_bytes(name),
        expected_attach_type: ATTACH_XDP,
        ..ProgLoad::default()
    };
    let error = match call_for_fd(5, &mut arguments) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => error,
        other => return other,
    };
    // The verifier refuses it: a second attempt, for its words.
    let mut log = vec![0_u8; 64 << 10];
    arguments.log_level = 1;
    arguments.log_size = log.len() as u32;
    arguments.log_buf = log.as_mut_ptr() as u64;
    if let Ok(fd) = call_for_fd(5, &mut arguments) {
        return Ok(fd);
    }
    let text = String::from_utf8_lossy(&log);
    let last = text.trim_end_matches(['\0', '\n']).lines().next_back();
    Err(io::Error::new(
        error.kind(),
        format!("{error}: {}", last.unwrap_or_default()),
    ))
}

#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}
impl Arguments for LinkCreate {}

/// Attaches an XDP program to an interface for as long as the descriptor lives; `flags` are those
/// of `if_link.h`.
pub(crate) fn attach_xdp(prog: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut arguments = LinkCreate {
        prog_fd: raw(prog),
        target_ifindex: index,
        attach_type: ATTACH_XDP,
        flags,
    };
    call_for_fd(28, &mut arguments)
}

#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next_id: u32,
    open_flags: u32,
}
impl Arguments for ById {}

/// Opens a program.
pub(crate) fn program(id: u32) -> io::Result<OwnedFd> {
    call_for_fd(
        13,
        &mut ById {
            id,
            ..ById::default()
        },
    )
}

/// Opens a map.
pub(crate) fn map(id: u32) -> io::Result<OwnedFd> {
    call_for_fd(
        14,
        &mut ById {
            id,
            ..ById::default()
        },
    )
}

/// Opens a link.
pub(crate) fn link(id: u32) -> io::Result<OwnedFd> {
    call_for_fd(
        30,
        &mut ById {
            id,
            ..ById::default()
        },
    )
}

/// Returns the number of the link after this one.
pub(crate) fn next_link(id: u32) -> Option<u32> {
    let mut arguments = ById {
        id,
        ..ById::default()
    };
    call(31, &mut arguments).ok()?;
    Some(arguments.next_id)
}

#[repr(C)]
struct LinkDetach {
    link_fd: u32,
}
impl Arguments for LinkDetach {}

/// Takes a link's program off its interface, whoever else holds the link.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    call(34, &mut LinkDetach { link_fd: raw(link) }).map(drop)
}

#[repr(C)]
struct InfoByFd {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}
impl Arguments for InfoByFd {}

/// What the kernel says of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramInfo {
    prog_type: u32,
    /// Its number.
    pub(crate) id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    jited: u64,
    xlated: u64,
    load_time: u64,
    uid: u32,
    map_count: u32,
    map_ids: u64,
    name: [u8; 16],
}

impl ProgramInfo {
    /// Returns its name.
    pub(crate) fn name(&self) -> String {
        let end = self.name.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.name[..end.unwrap_or(16)]).into_owned()
    }
}

/// Describes a program and names its first map.
pub(crate) fn program_info(fd: BorrowedFd<'_>) -> io::Result<(ProgramInfo, Option<u32>)> {
    let mut maps = [0_u32; 4];
    let mut info = ProgramInfo {
        map_count: maps.len() as u32,
        map_ids: maps.as_mut_ptr() as u64,
        ..ProgramInfo::default()
    };
    let mut arguments = InfoByFd {
        bpf_fd: raw(fd),
        info_len: size_of::<ProgramInfo>() as u32,
        info: (&raw mut info) as u64,
    };
    call(15, &mut arguments)?;
    Ok((info, maps.first().copied().filter(|id| *id != 0)))
}

#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    prog_id: u32,
    _padding: u32,
    ifindex: u32,
    _more: [u32; 7],
}

/// Returns program and interface of a link, if it is one of XDP.
pub(crate) fn xdp_link_info(fd: BorrowedFd<'_>) -> Option<(u32, u32)> {
    const LINK_XDP: u32 = 6;
    let mut info = LinkInfo::default();
    let mut arguments = InfoByFd {
        bpf_fd: raw(fd),
        info_len: size_of::<LinkInfo>() as u32,
        info: (&raw mut info) as u64,
    };
    call(15, &mut arguments).ok()?;
    (info.link_type == LINK_XDP).then_some((info.prog_id, info.ifindex))
}

#[repr(C)]
#[derive(Default)]
#[cfg(test)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _padding: u32,
}
#[cfg(test)]
impl Arguments for TestRun {}

/// Runs a program in the kernel on a frame; returns its verdict.
#[cfg(test)]
pub(crate) fn test_run(prog: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut arguments = TestRun {
        prog_fd: raw(prog),
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    call(10, &mut arguments)?;
    Ok(arguments.retval)
}
