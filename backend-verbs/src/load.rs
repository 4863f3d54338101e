//! libibverbs, loaded at run time: nothing is linked, so that everything else works where it is not installed.
#![expect(
    unsafe_code,
    reason = "dlopen, and the cast of a symbol's address to a function"
)]

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute_copy;
use std::ffi::CString;
use std::path::Path;

use crate::error::OpenError;
use crate::sys::ex::ibv_qp_ex;
use crate::sys::{
    ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_device,
    ibv_device_attr, ibv_gid_entry, ibv_mr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_attr,
    ibv_qp_init_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};

/// The name that every version since 2006 has.
const SONAME: &str = "libibverbs.so.1";

macro_rules! api {
    (required { $($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)* }
     optional { $($opt:ident: fn($($oarg:ty),*) $(-> $oret:ty)?;)* }) => {
        /// The functions of the library that are used. The library stays loaded for good: providers leave threads
        /// and handlers behind.
        #[derive(Debug)]
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            $(pub(crate) $opt: Option<unsafe extern "C" fn($($oarg),*) $(-> $oret)?>,)*
        }

        impl Api {
            fn resolve(library: &Loaded) -> Result<Self, OpenError> {
                Ok(Self {
                    $($name: {
                        let address = library.required(stringify!($name))?;
                        // SAFETY: the header declares the symbol of this name with this type.
                        unsafe { transmute_copy::<*mut c_void, unsafe extern "C" fn($($arg),*) $(-> $ret)?>(&address) }
                    },)*
                    $($opt: library.symbol(stringify!($opt)).map(|address| {
                        // SAFETY: as above.
                        unsafe { transmute_copy::<*mut c_void, unsafe extern "C" fn($($oarg),*) $(-> $oret)?>(&address) }
                    }),)*
                })
            }
        }
    };
}

api! {
    required {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list: fn(*mut *mut ibv_device);
        ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
        ibv_close_device: fn(*mut ibv_context) -> c_int;
        ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut [u64; 2]) -> c_int;
        ibv_query_pkey: fn(*mut ibv_context, u8, c_int, *mut u16) -> c_int;
        ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
        ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
        ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
        ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
        ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        ibv_resize_cq: fn(*mut ibv_cq, c_int) -> c_int;
        ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
        ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut ibv_cq, c_uint);
        ibv_create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
        ibv_modify_srq: fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int;
        ibv_destroy_srq: fn(*mut ibv_srq) -> c_int;
        ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
        ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
        ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        ibv_destroy_ah: fn(*mut ibv_ah) -> c_int;
        ibv_get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event: fn(*mut ibv_async_event);
    }
    optional {
        // Since rdma-core 26 and 28: send requests by calls, and rights that a kernel may leave out.
        ibv_qp_to_qp_ex: fn(*mut ibv_qp) -> *mut ibv_qp_ex;
        ibv_reg_mr_iova2: fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
        _ibv_query_gid_table: fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
    }
}

/// A library that was opened.
struct Loaded {
    handle: *mut c_void,
    path: String,
}

impl Loaded {
    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: `handle` came from `dlopen` and is never closed; `name` ends with a NUL.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    fn required(&self, name: &'static str) -> Result<*mut c_void, OpenError> {
        self.symbol(name).ok_or_else(|| OpenError::Symbol {
            library: self.path.clone(),
            name,
        })
    }
}

/// Loads the library of the system, or that at `path`.
///
/// # Errors
///
/// It is not installed, or not libibverbs.
pub(crate) fn load(path: Option<&Path>) -> Result<Api, OpenError> {
    let name = path.unwrap_or_else(|| Path::new(SONAME));
    let shown = name.display().to_string();
    let c_name = CString::new(shown.as_str()).map_err(|_| OpenError::Missing {
        reason: format!("{shown}: a name with a NUL"),
    })?;
    // SAFETY: a C string; what the library does when it is loaded is the system's.
    let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err(OpenError::Missing {
            reason: last_words(),
        });
    }
    Api::resolve(&Loaded {
        handle,
        path: shown,
    })
}

/// Returns what the loader says about its last failure.
fn last_words() -> String {
    // SAFETY: it takes nothing; only this thread reads its answer.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("the loader does not say why");
    }
    // SAFETY: not null, so a C string that stays until this thread's next call of the loader.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}
