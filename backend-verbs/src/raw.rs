//! Calls of libibverbs with typed, owned objects: the callers are safe code.
//!
//! An [`Object`] keeps its context open. It is destroyed by value and explicitly, since the library may refuse; one
//! that is dropped instead is left to the kernel, which takes everything back when the process ends.
#![expect(unsafe_code, reason = "every call of the library is one")]

pub(crate) mod post;
pub(crate) mod wr;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::{offset_of, zeroed};
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use roce_engine::verbs::{Region, Service};

use crate::convert;
use crate::load::Api;
use crate::sys::ex::ACCESS_RELAXED_ORDERING;
use crate::sys::{
    ABI_EXTENDED, MW_TYPE_2, ibv_ah, ibv_ah_attr, ibv_async_event, ibv_comp_channel, ibv_context,
    ibv_cq, ibv_device, ibv_device_attr, ibv_gid_entry, ibv_mr, ibv_mw, ibv_pd, ibv_port_attr,
    ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
    verbs_context,
};

/// An errno.
pub(crate) type Errno = i32;

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The library returns an errno, or -1 and sets it.
fn check(code: c_int) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        1.. => Err(code),
        _ => Err(last_errno()),
    }
}

/// The list of devices, while it is looked at.
pub(crate) struct DeviceList<'a> {
    api: &'a Rc<Api>,
    list: NonNull<*mut ibv_device>,
    count: usize,
}

/// A device of a list.
pub(crate) struct Listed<'l> {
    list: &'l DeviceList<'l>,
    device: NonNull<ibv_device>,
}

impl<'a> DeviceList<'a> {
    pub(crate) fn new(api: &'a Rc<Api>) -> Result<Self, Errno> {
        let mut count = 0;
        // SAFETY: `count` outlives the call.
        let list = unsafe { (api.ibv_get_device_list)(&raw mut count) };
        let list = NonNull::new(list).ok_or_else(last_errno)?;
        Ok(Self {
            api,
            list,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Listed<'_>> {
        (0..self.count).filter_map(|index| {
            // SAFETY: the library said that the list has `count` entries.
            let entry = unsafe { self.list.add(index) };
            // SAFETY: as above.
            let device = unsafe { entry.read() };
            NonNull::new(device).map(|device| Listed { list: self, device })
        })
    }
}

impl Drop for DeviceList<'_> {
    fn drop(&mut self) {
        // SAFETY: the list came from `ibv_get_device_list` and is freed once.
        unsafe { (self.api.ibv_free_device_list)(self.list.as_ptr()) };
    }
}

impl Listed<'_> {
    pub(crate) fn name(&self) -> String {
        // SAFETY: a device of a live list is valid; no reference to the whole is formed.
        text(unsafe { &raw const (*self.device.as_ptr()).name }.cast())
    }

    pub(crate) fn transport(&self) -> c_int {
        // SAFETY: as above.
        unsafe { (*self.device.as_ptr()).transport_type }
    }

    pub(crate) fn open(&self) -> Result<Rc<Context>, Errno> {
        let api = self.list.api;
        // SAFETY: the device is of a live list.
        let raw = unsafe { (api.ibv_open_device)(self.device.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(last_errno)?;
        Ok(Rc::new(Context {
            api: Rc::clone(api),
            raw,
        }))
    }
}

/// Reads one of the library's fixed arrays of characters.
fn text(start: *const c_char) -> String {
    // SAFETY: the library ends its names with a NUL.
    let text = unsafe { CStr::from_ptr(start) };
    text.to_string_lossy().into_owned()
}

/// An open device.
#[derive(Debug)]
pub(crate) struct Context {
    api: Rc<Api>,
    raw: NonNull<ibv_context>,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; objects hold a clone of the `Rc`, so none is left.
        let _closed = unsafe { (self.api.ibv_close_device)(self.raw.as_ptr()) };
    }
}

/// An object of a device.
#[derive(Debug)]
pub(crate) struct Object<T> {
    context: Rc<Context>,
    raw: NonNull<T>,
}

impl<T> Object<T> {
    fn new(context: &Rc<Context>, raw: *mut T) -> Result<Self, Errno> {
        let raw = NonNull::new(raw).ok_or_else(last_errno)?;
        Ok(Self {
            context: Rc::clone(context),
            raw,
        })
    }

    /// Returns whether this is the object that an event names.
    pub(crate) fn is(&self, element: *mut c_void) -> bool {
        self.raw.as_ptr().cast() == element
    }

    fn api(&self) -> &Api {
        &self.context.api
    }
}

/// An object that can be destroyed: not while another one uses it.
pub(crate) trait Destroy: Sized {
    /// Destroys it; one that the library keeps is not used again.
    fn destroy(self) -> Result<(), Errno>;
}

macro_rules! destroy {
    ($($type:ty: $function:ident;)*) => {$(
        impl Destroy for Object<$type> {
            fn destroy(self) -> Result<(), Errno> {
                // SAFETY: the object is alive, and given up here.
                check(unsafe { (self.api().$function)(self.raw.as_ptr()) })
            }
        }
    )*};
}

destroy! {
    ibv_pd: ibv_dealloc_pd;
    ibv_mr: ibv_dereg_mr;
    ibv_comp_channel: ibv_destroy_comp_channel;
    ibv_cq: ibv_destroy_cq;
    ibv_srq: ibv_destroy_srq;
    ibv_qp: ibv_destroy_qp;
    ibv_ah: ibv_destroy_ah;
}

impl Destroy for Object<ibv_mw> {
    fn destroy(self) -> Result<(), Errno> {
        // SAFETY: a context's table does not change while it is open.
        let dealloc = unsafe { (*self.context.raw.as_ptr()).ops.dealloc_mw };
        let dealloc = dealloc.ok_or(libc::EOPNOTSUPP)?;
        // SAFETY: the window is alive, and given up here.
        check(unsafe { dealloc(self.raw.as_ptr()) })
    }
}

impl Context {
    pub(crate) fn query_device(&self) -> Result<ibv_device_attr, Errno> {
        // SAFETY: numbers and bytes, for which zero is a value.
        let mut attr: ibv_device_attr = unsafe { zeroed() };
        // SAFETY: `attr` outlives the call.
        check(unsafe { (self.api.ibv_query_device)(self.raw.as_ptr(), &raw mut attr) })?;
        Ok(attr)
    }

    /// As the header's inline function: through the extended table where there is one, since the exported function
    /// fills only the older, shorter structure.
    pub(crate) fn query_port(&self, port: u8) -> Result<ibv_port_attr, Errno> {
        // SAFETY: numbers, for which zero is a value.
        let mut attr: ibv_port_attr = unsafe { zeroed() };
        let size = size_of::<ibv_port_attr>();
        let code = match self.extended_query_port() {
            // SAFETY: `attr` has the length that is named, and outlives the call.
            Some(query) => unsafe { query(self.raw.as_ptr(), port, &raw mut attr, size) },
            // SAFETY: the structure is at least as long as the one that is filled.
            None => unsafe { (self.api.ibv_query_port)(self.raw.as_ptr(), port, &raw mut attr) },
        };
        check(code)?;
        Ok(attr)
    }

    /// Returns the extended table around the context, if there is one.
    fn extended(&self) -> Option<NonNull<verbs_context>> {
        // SAFETY: the context is open.
        if unsafe { (*self.raw.as_ptr()).abi_compat } != ABI_EXTENDED {
            return None;
        }
        let before = offset_of!(verbs_context, context);
        // SAFETY: that mark says that the context is the last field of a `verbs_context`.
        let outer = unsafe { self.raw.as_ptr().byte_sub(before) }.cast::<verbs_context>();
        // SAFETY: `sz` is right in front of the context in every version.
        let size = unsafe { (*outer).sz };
        if size < size_of::<verbs_context>() {
            return None;
        }
        NonNull::new(outer)
    }

    fn extended_query_port(
        &self,
    ) -> Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>
    {
        let outer = self.extended()?;
        // SAFETY: the table is at least as long as ours, so that it has this entry.
        unsafe { (*outer.as_ptr()).query_port }
    }

    /// Returns the rows of the GID table that hold something, of all ports; `None` in libraries before 2020.
    pub(crate) fn gid_table(&self, most: usize) -> Option<Result<Vec<ibv_gid_entry>, Errno>> {
        let query = self.api._ibv_query_gid_table?;
        let empty = ibv_gid_entry {
            gid: [0; 2],
            gid_index: 0,
            port_num: 0,
            gid_type: 0,
            ndev_ifindex: 0,
        };
        let mut rows = vec![empty; most];
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: `rows` has room for `most` entries of that size.
        let count = unsafe { query(self.raw.as_ptr(), rows.as_mut_ptr(), most, 0, size) };
        Some(match usize::try_from(count) {
            Ok(count) => {
                rows.truncate(count);
                Ok(rows)
            }
            Err(_) => Err(i32::try_from(count).map_or(0, i32::abs)),
        })
    }

    pub(crate) fn gid(&self, port: u8, index: u8) -> Result<[u64; 2], Errno> {
        let mut gid = [0; 2];
        // SAFETY: `gid` outlives the call.
        let code = unsafe {
            (self.api.ibv_query_gid)(self.raw.as_ptr(), port, index.into(), &raw mut gid)
        };
        check(code)?;
        Ok(gid)
    }

    /// Returns a partition key in network order.
    pub(crate) fn pkey(&self, port: u8, index: u16) -> Result<u16, Errno> {
        let mut key = 0;
        // SAFETY: `key` outlives the call.
        let code = unsafe {
            (self.api.ibv_query_pkey)(self.raw.as_ptr(), port, index.into(), &raw mut key)
        };
        check(code)?;
        Ok(key)
    }

    pub(crate) fn async_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open.
        let fd = unsafe { (*self.raw.as_ptr()).async_fd };
        // SAFETY: the descriptor is open as long as the context is.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes an event and acknowledges it: returns what it is about, for comparison only, and its type.
    pub(crate) fn async_event(&self) -> Option<(*mut c_void, c_int)> {
        let mut event = ibv_async_event {
            element: core::ptr::null_mut(),
            event_type: 0,
        };
        // SAFETY: `event` outlives the call.
        let code = unsafe { (self.api.ibv_get_async_event)(self.raw.as_ptr(), &raw mut event) };
        if code != 0 {
            return None;
        }
        // SAFETY: the event was just taken, and is acknowledged once.
        unsafe { (self.api.ibv_ack_async_event)(&raw mut event) };
        Some((event.element, event.event_type))
    }
}

impl Object<ibv_pd> {
    pub(crate) fn alloc(context: &Rc<Context>) -> Result<Self, Errno> {
        // SAFETY: the context is open.
        Self::new(context, unsafe {
            (context.api.ibv_alloc_pd)(context.raw.as_ptr())
        })
    }
}

impl Object<ibv_mr> {
    /// Registers memory; the caller keeps a clone of the region for as long as the registration is.
    pub(crate) fn register(
        pd: &Object<ibv_pd>,
        region: &Region,
        access: c_uint,
    ) -> Result<Self, Errno> {
        let (api, domain) = (pd.api(), pd.raw.as_ptr());
        let (start, length) = (region.addr() as *mut c_void, region.len());
        let optional = access & ACCESS_RELAXED_ORDERING;
        let raw = match api.ibv_reg_mr_iova2.filter(|_| optional != 0) {
            // SAFETY: the region's maker vouches for its memory, which a device may reach as any peer may.
            Some(register) => unsafe { register(domain, start, length, region.addr(), access) },
            None => {
                let access = (access & !optional).cast_signed();
                // SAFETY: as above.
                unsafe { (api.ibv_reg_mr)(domain, start, length, access) }
            }
        };
        Self::new(&pd.context, raw)
    }

    /// Returns the local and the remote key.
    pub(crate) fn keys(&self) -> (u32, u32) {
        // SAFETY: the registration is alive.
        let lkey = unsafe { (*self.raw.as_ptr()).lkey };
        // SAFETY: as above.
        let rkey = unsafe { (*self.raw.as_ptr()).rkey };
        (lkey, rkey)
    }
}

impl Object<ibv_mw> {
    pub(crate) fn alloc(pd: &Object<ibv_pd>) -> Result<Self, Errno> {
        // SAFETY: a context's table does not change while it is open.
        let alloc = unsafe { (*pd.context.raw.as_ptr()).ops.alloc_mw };
        let alloc = alloc.ok_or(libc::EOPNOTSUPP)?;
        // SAFETY: the domain is alive.
        Self::new(&pd.context, unsafe { alloc(pd.raw.as_ptr(), MW_TYPE_2) })
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the window is alive.
        unsafe { (*self.raw.as_ptr()).rkey }
    }
}

impl Object<ibv_comp_channel> {
    pub(crate) fn create(context: &Rc<Context>) -> Result<Self, Errno> {
        // SAFETY: the context is open.
        Self::new(context, unsafe {
            (context.api.ibv_create_comp_channel)(context.raw.as_ptr())
        })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is alive.
        let fd = unsafe { (*self.raw.as_ptr()).fd };
        // SAFETY: the descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes an event of a completion queue and acknowledges it; returns which, for comparison only.
    pub(crate) fn event(&self) -> Option<*mut c_void> {
        let mut cq = core::ptr::null_mut();
        let mut user = core::ptr::null_mut();
        // SAFETY: both places outlive the call.
        let code =
            unsafe { (self.api().ibv_get_cq_event)(self.raw.as_ptr(), &raw mut cq, &raw mut user) };
        if code != 0 || cq.is_null() {
            return None;
        }
        // SAFETY: the library names a queue that is alive, for which an event was just taken.
        unsafe { (self.api().ibv_ack_cq_events)(cq, 1) };
        Some(cq.cast())
    }
}

impl Object<ibv_cq> {
    pub(crate) fn create(
        context: &Rc<Context>,
        channel: &Object<ibv_comp_channel>,
        depth: c_int,
    ) -> Result<Self, Errno> {
        let user = core::ptr::null_mut();
        // SAFETY: context and channel are alive; every device has completion vector 0.
        let raw = unsafe {
            (context.api.ibv_create_cq)(context.raw.as_ptr(), depth, user, channel.raw.as_ptr(), 0)
        };
        Self::new(context, raw)
    }

    pub(crate) fn resize(&self, depth: c_int) -> Result<(), Errno> {
        // SAFETY: the queue is alive.
        check(unsafe { (self.api().ibv_resize_cq)(self.raw.as_ptr(), depth) })
    }
}

impl Object<ibv_srq> {
    pub(crate) fn create(pd: &Object<ibv_pd>, attr: ibv_srq_attr) -> Result<Self, Errno> {
        let mut init = ibv_srq_init_attr {
            srq_context: core::ptr::null_mut(),
            attr,
        };
        // SAFETY: the domain is alive, `init` outlives the call.
        let raw = unsafe { (pd.api().ibv_create_srq)(pd.raw.as_ptr(), &raw mut init) };
        Self::new(&pd.context, raw)
    }

    pub(crate) fn modify(&self, mut attr: ibv_srq_attr, mask: c_int) -> Result<(), Errno> {
        // SAFETY: the queue is alive, `attr` outlives the call.
        check(unsafe { (self.api().ibv_modify_srq)(self.raw.as_ptr(), &raw mut attr, mask) })
    }
}

/// Returns what describes a QP whose queues are still to be named.
pub(crate) fn qp_init(service: Service, cap: ibv_qp_cap, sq_sig_all: bool) -> ibv_qp_init_attr {
    let null = core::ptr::null_mut();
    ibv_qp_init_attr {
        qp_context: null,
        send_cq: core::ptr::null_mut(),
        recv_cq: core::ptr::null_mut(),
        srq: core::ptr::null_mut(),
        cap,
        qp_type: convert::service(service),
        sq_sig_all: sq_sig_all.into(),
    }
}

/// What a QP is made from.
pub(crate) struct QpParts<'a> {
    pub(crate) send_cq: &'a Object<ibv_cq>,
    pub(crate) recv_cq: &'a Object<ibv_cq>,
    pub(crate) srq: Option<&'a Object<ibv_srq>>,
}

impl Object<ibv_qp> {
    /// Makes a QP; `init` holds sizes and type, and afterwards the sizes that it really has.
    pub(crate) fn create(
        pd: &Object<ibv_pd>,
        parts: &QpParts<'_>,
        init: &mut ibv_qp_init_attr,
    ) -> Result<Self, Errno> {
        parts.name_in(init);
        // SAFETY: all objects are alive, `init` outlives the call.
        let raw = unsafe { (pd.api().ibv_create_qp)(pd.raw.as_ptr(), init) };
        Self::new(&pd.context, raw)
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the QP is alive.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    pub(crate) fn modify(&self, mut attr: ibv_qp_attr, mask: c_int) -> Result<(), Errno> {
        // SAFETY: the QP is alive, `attr` outlives the call.
        check(unsafe { (self.api().ibv_modify_qp)(self.raw.as_ptr(), &raw mut attr, mask) })
    }

    pub(crate) fn query(&self, mask: c_int) -> Result<ibv_qp_attr, Errno> {
        let mut attr = ibv_qp_attr::default();
        // SAFETY: pointers and numbers, for which zero is a value.
        let mut init: ibv_qp_init_attr = unsafe { zeroed() };
        // SAFETY: the QP is alive, both places outlive the call.
        let code = unsafe {
            (self.api().ibv_query_qp)(self.raw.as_ptr(), &raw mut attr, mask, &raw mut init)
        };
        check(code)?;
        Ok(attr)
    }
}

impl Object<ibv_ah> {
    pub(crate) fn create(pd: &Object<ibv_pd>, mut attr: ibv_ah_attr) -> Result<Self, Errno> {
        // SAFETY: the domain is alive, `attr` outlives the call.
        let raw = unsafe { (pd.api().ibv_create_ah)(pd.raw.as_ptr(), &raw mut attr) };
        Self::new(&pd.context, raw)
    }
}
