// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The context, devices, and memory of the application's own.

use crate::error::{call, string, text, Error, Result, Status};
use crate::sys;
use std::ffi::{c_void, CString};
use std::os::raw::c_char;
use std::os::unix::io::{AsFd, AsRawFd};
use std::ptr;
use std::sync::Arc;

type Log = Box<dyn Fn(LogLevel, &str, &str) + Send + Sync>;

/// How much a line of the log matters.
///
/// ```
/// assert!(gpudirect::LogLevel::Error < gpudirect::LogLevel::Warning);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something that the application asked for does not work.
    Error = 1,
    /// It works, but not as it should: a fall-back, a lost peer.
    Warning,
    /// Connections, routes, formats; nothing that happens once a frame.
    Info,
    /// Everything.
    Debug,
}

struct Raw {
    raw: *mut sys::gpud_context,
    _log: Option<Arc<Log>>, // the library uses it until the context is destroyed
}

// device.h: contexts are thread-safe.
unsafe impl Send for Raw {}
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        unsafe { sys::gpud_context_destroy(&mut self.raw) }
    }
}

/// The root of all objects, which keep it alive. Clones are the same context.
///
/// ```
/// use gpudirect::{Context, LogLevel};
/// let context = Context::with_log(LogLevel::Info, |level, area, text| {
///     eprintln!("{level:?} {area}: {text}");
/// })?;
/// assert_eq!(context.device("host")?.name(), "host");
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone)]
pub struct Context(Arc<Raw>);

impl Context {
    /// Warnings and errors go to stderr.
    pub fn new() -> Result<Context> {
        Context::create(None, None)
    }

    /// Hands the lines of the log to a function, which must not use the library: it may be called from any thread, with
    /// locks held.
    pub fn with_log(level: LogLevel, log: impl Fn(LogLevel, &str, &str) + Send + Sync + 'static) -> Result<Context> {
        Context::create(Some(level), Some(Arc::new(Box::new(log))))
    }

    fn create(level: Option<LogLevel>, log: Option<Arc<Log>>) -> Result<Context> {
        let mut params: sys::gpud_context_params = crate::sized();
        params.log_level = level.map_or(0, |level| level as _);
        if let Some(log) = &log {
            params.log = Some(write_log);
            params.log_user = Arc::as_ptr(log) as *mut c_void;
        }
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_context_create(&params, &mut raw, error) })?;
        Ok(Context(Arc::new(Raw { raw, _log: log })))
    }

    /// Opens a device: "host", "cuda:0", …
    pub fn device(&self, name: &str) -> Result<Device> {
        let name = c_string(name)?;
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_device_open(self.raw(), name.as_ptr(), &mut raw, error) })?;
        Ok(Device { raw, context: self.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::gpud_context {
        self.0.raw
    }

    /// What is of one context must not outlive it in the hands of another.
    pub(crate) fn expect_same(&self, other: &Context, what: &str) -> Result<()> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        let reason = format!("the {what} is of another context: make all objects of one");
        Err(Error::new(Status::Invalid, reason))
    }
}

unsafe extern "C" fn write_log(
    user: *mut c_void,
    level: sys::gpud_log_level,
    area: *const c_char,
    text: *const c_char,
) {
    let level = match level {
        sys::GPUD_LOG_ERROR => LogLevel::Error,
        sys::GPUD_LOG_WARNING => LogLevel::Warning,
        sys::GPUD_LOG_INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    };
    crate::or_abort(|| (*(user as *const Log))(level, &string(area), &string(text)));
}

/// A text for C.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(Status::Invalid, format!("{text:?} has a NUL, which no name has")))
}

/// A device, for memory of the application's own. Senders and receivers need only its name.
///
/// ```
/// let device = gpudirect::Context::new()?.device("host")?;
/// assert!(device.native().is_null());
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Device {
    raw: *mut sys::gpud_device,
    context: Context,
}

// device.h: devices are thread-safe.
unsafe impl Send for Device {}
unsafe impl Sync for Device {}

impl Device {
    /// Its name: "cuda:0".
    pub fn name(&self) -> String {
        let mut info: sys::gpud_device_info = crate::sized();
        unsafe { sys::gpud_device_get_info(self.raw, &mut info) };
        text(&info.name)
    }

    /// The driver's own object: a CUcontext, cl_context or VkDevice; NULL on the host.
    pub fn native(&self) -> *mut c_void {
        unsafe { sys::gpud_device_get_native(self.raw) }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        unsafe { sys::gpud_device_close(&mut self.raw) }
    }
}

/// Memory of the application's own, for [`Frame::wrap`](crate::Frame::wrap) and
/// [`ReceiverBuilder::alloc`](crate::ReceiverBuilder::alloc).
///
/// ```
/// use gpudirect::{Context, Memory};
/// let device = Context::new()?.device("host")?;
/// let zeroed = Memory::alloc(&device, 4096)?;
/// let owned = Memory::from_vec(&device, vec![1; 4096])?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Memory {
    raw: *mut sys::gpud_memory,
    pub(crate) context: Context,
}

unsafe impl Send for Memory {}
unsafe impl Sync for Memory {}

impl Memory {
    fn make(
        device: &Device,
        make: impl FnOnce(*mut *mut sys::gpud_memory, *mut sys::gpud_error) -> sys::gpud_status,
    ) -> Result<Memory> {
        let mut raw = ptr::null_mut();
        call(|error| make(&mut raw, error))?;
        Ok(Memory { raw, context: device.context.clone() })
    }

    /// Zeroed memory of a device.
    pub fn alloc(device: &Device, size: u64) -> Result<Memory> {
        Memory::make(device, |raw, error| unsafe {
            sys::gpud_memory_alloc(device.raw, size, sys::GPUD_MEMORY_PLAIN, raw, error)
        })
    }

    /// The same for drivers of other cards, which get it as a dma-buf.
    pub fn alloc_dmabuf(device: &Device, size: u64) -> Result<Memory> {
        Memory::make(device, |raw, error| unsafe {
            sys::gpud_memory_alloc(device.raw, size, sys::GPUD_MEMORY_DMABUF, raw, error)
        })
    }

    /// Bytes of the host, which are dropped when the library needs them no longer.
    pub fn from_vec(device: &Device, mut bytes: Vec<u8>) -> Result<Memory> {
        let (start, size) = (bytes.as_mut_ptr() as *mut c_void, bytes.len() as u64);
        unsafe { Memory::wrap(device, start, size, move || drop(bytes)) }
    }

    /// Memory that another library allocated on a device: a device address on "cuda:N" and "hip:N", a cl_mem, a
    /// VkBuffer; a pointer on "host". `destroy` is called from any thread when the library needs it no longer, and not
    /// if this function fails.
    ///
    /// # Safety
    ///
    /// `native` must be memory of that device, of that size, until `destroy` is called; and nothing else may use it
    /// while the library or a frame over it does.
    pub unsafe fn wrap(
        device: &Device,
        native: *mut c_void,
        size: u64,
        destroy: impl FnOnce() + Send + 'static,
    ) -> Result<Memory> {
        unsafe extern "C" fn run(user: *mut c_void) {
            let destroy = Box::from_raw(user as *mut Box<dyn FnOnce() + Send>);
            crate::or_abort(destroy);
        }
        let destroy: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(destroy));
        let user = Box::into_raw(destroy);
        Memory::make(device, |raw, error| {
            sys::gpud_memory_wrap(device.raw, native, size, Some(run), user as *mut c_void, raw, error)
        })
        .map_err(|error| {
            drop(Box::from_raw(user));
            error
        })
    }

    /// A dma-buf of another origin as host memory.
    pub fn import_dmabuf(device: &Device, fd: impl AsFd, offset: u64, size: u64) -> Result<Memory> {
        let fd = fd.as_fd().as_raw_fd();
        Memory::make(device, |raw, error| unsafe {
            sys::gpud_memory_import_dmabuf(device.raw, fd, offset, size, raw, error)
        })
    }

    pub(crate) fn raw(&self) -> *mut sys::gpud_memory {
        self.raw
    }

    /// Its reference is the library's from here on.
    pub(crate) fn into_raw(mut self) -> *mut sys::gpud_memory {
        std::mem::replace(&mut self.raw, ptr::null_mut())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { sys::gpud_memory_unref(&mut self.raw) }
    }
}
