//! The system calls that have no safe wrapper: the only `unsafe` of this crate.
//!
//! Addresses and control messages are built and read as bytes of the kernel's ABI in [`wire`], in
//! safe code, so that what is left here is the calls themselves.

mod ifaddrs;
mod wire;

use core::ffi::c_int;
use core::mem::{MaybeUninit, size_of};
use core::net::SocketAddr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) use ifaddrs::{RawAddress, RawKind, addresses, interface_mtu};
pub(crate) use wire::{Control, ErrorReport, Header, SocketName};

/// The most messages of one system call, either way.
pub(crate) const MAX_MESSAGES: usize = 32;

/// One message of [`send`]: where to, what, and with which options.
pub(crate) struct Outgoing<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) flow_label: u32,
    pub(crate) header: Header,
    pub(crate) bytes: &'a [u8],
}

/// Gives messages to the kernel in one system call; returns how many it took.
///
/// # Errors
///
/// What the kernel said of the first message. At most [`MAX_MESSAGES`] are looked at.
pub(crate) fn send<'a>(
    socket: BorrowedFd<'_>,
    messages: impl Iterator<Item = Outgoing<'a>>,
) -> io::Result<usize> {
    // Uninitialised until used: most calls carry one or two messages.
    let mut names = [const { MaybeUninit::<SocketName>::uninit() }; MAX_MESSAGES];
    let mut controls = [const { MaybeUninit::<Control>::uninit() }; MAX_MESSAGES];
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_MESSAGES];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_MESSAGES];
    let mut count = 0;
    for message in messages.take(MAX_MESSAGES) {
        let name = names[count].write(SocketName::new());
        name.set(message.to, message.flow_label);
        let control = controls[count].write(Control::new());
        control.write(message.to.is_ipv6(), &message.header);
        let vector = vectors[count].write(libc::iovec {
            iov_base: message.bytes.as_ptr().cast_mut().cast(),
            iov_len: message.bytes.len(),
        });
        let header = headers[count].write(empty_header());
        header.msg_hdr.msg_name = name.as_mut_ptr();
        header.msg_hdr.msg_namelen = name.len();
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = control.as_mut_ptr();
        header.msg_hdr.msg_controllen = control.len() as _;
        count += 1;
    }
    // SAFETY: the first `count` headers are set; the names, controls, vectors and bytes that they
    // point to outlive the call, which only reads them and writes `msg_len`.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as u32,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn empty_header() -> libc::mmsghdr {
    // SAFETY: all bytes zero is a value of every field (null pointers and integers).
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// What is known of one received message beside its bytes.
#[derive(Clone)]
pub(crate) struct Received {
    name: SocketName,
    control: Control,
    /// Bytes in its buffer.
    pub(crate) len: usize,
    /// Whether the buffer was too short for it.
    pub(crate) truncated: bool,
}

impl Received {
    pub(crate) const EMPTY: Self = Self {
        name: SocketName::new(),
        control: Control::new(),
        len: 0,
        truncated: false,
    };

    /// Returns who sent it.
    pub(crate) fn from(&self) -> Option<SocketAddr> {
        self.name.parse()
    }

    /// Returns the header fields and the segment size that the kernel reported.
    pub(crate) fn header(&self) -> Header {
        self.control.read()
    }
}

/// Receives one message into each of `buffers`, as far as there are any; returns how many.
///
/// # Errors
///
/// `WouldBlock` when there is none, or what the kernel said.
pub(crate) fn receive<'a>(
    socket: BorrowedFd<'_>,
    received: &mut [Received],
    buffers: impl Iterator<Item = &'a mut [u8]>,
) -> io::Result<usize> {
    let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; MAX_MESSAGES];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; MAX_MESSAGES];
    let mut count = 0;
    for (message, buffer) in received.iter_mut().zip(buffers).take(MAX_MESSAGES) {
        let vector = vectors[count].write(libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        });
        let header = headers[count].write(empty_header());
        header.msg_hdr.msg_name = message.name.as_mut_ptr();
        header.msg_hdr.msg_namelen = SocketName::CAPACITY;
        header.msg_hdr.msg_iov = vector;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_control = message.control.as_mut_ptr();
        header.msg_hdr.msg_controllen = Control::CAPACITY as _;
        count += 1;
    }
    // SAFETY: the first `count` headers are set, and what they point to is borrowed mutably for the
    // whole call with the lengths given, so the kernel writes only there.
    let filled = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count as u32,
            libc::MSG_DONTWAIT as _,
            core::ptr::null_mut(),
        )
    };
    let filled = usize::try_from(filled).map_err(|_| io::Error::last_os_error())?;
    for (message, header) in received.iter_mut().zip(&headers).take(filled) {
        // SAFETY: the kernel fills no more headers than the `count` that were written above.
        let header = unsafe { header.assume_init_ref() };
        message.name.set_len(header.msg_hdr.msg_namelen);
        message.control.set_len(header.msg_hdr.msg_controllen);
        message.len = header.msg_len as usize;
        message.truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    }
    Ok(filled)
}

/// Takes one report from a socket's error queue.
///
/// # Errors
///
/// `WouldBlock` when there is none.
pub(crate) fn receive_error(socket: BorrowedFd<'_>) -> io::Result<ErrorReport> {
    let mut name = SocketName::new();
    let mut control = Control::new();
    let mut returned = [0_u8; 64];
    let mut vector = libc::iovec {
        iov_base: returned.as_mut_ptr().cast(),
        iov_len: returned.len(),
    };
    let mut header = empty_header().msg_hdr;
    header.msg_name = name.as_mut_ptr();
    header.msg_namelen = SocketName::CAPACITY;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr();
    header.msg_controllen = Control::CAPACITY as _;
    // SAFETY: everything that the header points to lives on this stack frame, with these lengths.
    let got = unsafe {
        libc::recvmsg(
            socket.as_raw_fd(),
            &raw mut header,
            libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
        )
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    name.set_len(header.msg_namelen);
    control.set_len(header.msg_controllen);
    Ok(control.read_error(name.parse()))
}

/// Sets an integer option of a socket.
///
/// # Errors
///
/// What the kernel said.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<c_int>()` bytes of a live integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    ok(result)
}

/// Reads an integer option of a socket.
///
/// # Errors
///
/// What the kernel said.
pub(crate) fn option(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a live integer of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    ok(result).map(|()| value)
}

/// Returns how many packets the kernel dropped at this socket, if it says.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut values = [0_u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a live array of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let full = len as usize == size_of_val(&values);
    (result == 0 && full).then(|| u64::from(values[libc::SK_MEMINFO_DROPS as usize]))
}

/// Returns the process at the other end of a Unix socket, if this process can see it.
pub(crate) fn peer_pid(socket: BorrowedFd<'_>) -> Option<i32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a live structure of that size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    (result == 0 && peer.pid > 0).then_some(peer.pid)
}

/// Attaches the filter that picks a socket of a reuse-port group.
///
/// # Errors
///
/// What the kernel said.
pub(crate) fn attach_selector(
    socket: BorrowedFd<'_>,
    program: &mut [libc::sock_filter],
) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads the descriptor and the `len` instructions it points to, all live.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    ok(result)
}

fn ok(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
