//! Building and steering the library of the tests.
#![allow(unsafe_code, reason = "the library's own C functions")]

use core::ffi::{c_int, c_uint, c_void};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use backend_verbs::{OpenError, Posting, VerbsDevice};

/// Returns the library, which is compiled once.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = folder.join(format!("libibverbs-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/libibverbs.rs");
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let output = Command::new(compiler)
            .args(["--edition", "2024", "--crate-type", "cdylib", "-o"])
            .arg(&path)
            .arg(source)
            .output()
            .expect("a Rust compiler");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        path
    })
}

/// Opens port 1 of a device of the library.
pub(crate) fn open(name: &str) -> Result<VerbsDevice, OpenError> {
    open_posting(name, Posting::default())
}

/// As [`open`], with requests posted by these calls.
pub(crate) fn open_posting(name: &str, posting: Posting) -> Result<VerbsDevice, OpenError> {
    VerbsDevice::open_with(library(), name, 1, posting)
}

fn function(name: &str) -> *mut c_void {
    let path = CString::new(library().to_str().unwrap()).unwrap();
    // SAFETY: the library is the tests' own; it stays loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    let name = CString::new(name).unwrap();
    // SAFETY: `handle` is open.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!address.is_null(), "{name:?}");
    address
}

macro_rules! steer {
    ($(#[$doc:meta])* $name:ident as $symbol:literal ($($arg:ident: $type:ty),*)) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $type),*) {
            let address = function($symbol);
            // SAFETY: the library defines the symbol with this type.
            let call = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn($($type),*)>(address) };
            call($($arg),*);
        }
    };
}

steer! {
    /// Leaves only so many devices, for this thread.
    devices as "fake_devices" (count: c_int)
}
steer! {
    /// Makes an event of a QP, or of port 1 for QPN 0.
    event as "fake_event" (qpn: u32, kind: c_int)
}
steer! {
    /// Puts a QP into a state.
    state as "fake_state" (qpn: u32, state: c_int)
}
steer! {
    /// Completes something of a QP with a status and the vendor's code.
    completion as "fake_completion" (qpn: u32, status: c_int, vendor_err: u32)
}

steer! {
    /// Makes all devices a vendor's part.
    identity as "fake_identity" (vendor: c_uint, part: c_uint)
}

macro_rules! ask {
    ($(#[$doc:meta])* $name:ident as $symbol:literal) => {
        $(#[$doc])*
        pub(crate) fn $name() -> c_uint {
            let address = function($symbol);
            // SAFETY: the library defines the symbol with this type.
            let call = unsafe { core::mem::transmute::<*mut c_void, extern "C" fn() -> c_uint>(address) };
            call()
        }
    };
}

ask! {
    /// Returns how many requests were taken by `ibv_wr_*` in this thread.
    written as "fake_written"
}
ask! {
    /// Returns how many domains, queues and QPs of this thread there are.
    objects as "fake_objects"
}
ask! {
    /// Returns the access rights of the last registration.
    access as "fake_access"
}

/// Makes a function fail with an errno, after so many calls that go well, for this thread.
pub(crate) fn fail(name: &str, errno: c_int, after: c_uint) {
    let name = CString::new(name).unwrap();
    let address = function("fake_fail");
    // SAFETY: the library defines the symbol with this type.
    let call = unsafe {
        core::mem::transmute::<*mut c_void, extern "C" fn(*const core::ffi::c_char, c_int, c_uint)>(
            address,
        )
    };
    call(name.as_ptr(), errno, after);
}
