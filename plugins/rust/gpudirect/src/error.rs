// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Failures, and what passes between C and Rust in every call.

use crate::sys;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::raw::c_char;
use std::ptr::addr_of;
use std::time::Duration;
use std::{fmt, io};

/// What kind of failure an [`Error`] is.
///
/// ```
/// use gpudirect::Status;
/// assert_eq!(Status::Timeout.to_string(), "timeout");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Interrupted by `interrupt(true)`: call again after `interrupt(false)`.
    Again,
    /// The deadline passed first.
    Timeout,
    /// The stream ended in order (EOS).
    Closed,
    /// An argument is wrong.
    Invalid,
    /// Right, but this device, route or build cannot do it.
    Unsupported,
    /// There is no such device, driver or card.
    NoDevice,
    /// Out of host or device memory.
    NoMemory,
    /// This user, or this container, may not.
    NoAccess,
    /// The other side vanished, or broke the protocol.
    Peer,
    /// The system or a driver failed: see [`Error::native`].
    Io,
    /// One of a newer library.
    Other(u32),
}

/// In the order of the numbers, from GPUD_AGAIN on.
const STATUSES: [Status; 10] = {
    use Status::*;
    [Again, Timeout, Closed, Invalid, Unsupported, NoDevice, NoMemory, NoAccess, Peer, Io]
};

impl Status {
    pub(crate) fn from_raw(raw: sys::gpud_status) -> Status {
        STATUSES.get((raw as usize).wrapping_sub(1)).copied().unwrap_or(Status::Other(raw))
    }

    pub(crate) fn to_raw(self) -> sys::gpud_status {
        match self {
            Status::Other(raw) => raw,
            _ => STATUSES.iter().position(|&one| one == self).map_or(sys::GPUD_IO, |index| index as u32 + 1),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&string(unsafe { sys::gpud_status_string(self.to_raw()) }))
    }
}

/// A failure, with the library's message on what is wrong and what would help.
///
/// ```
/// use gpudirect::{Context, Receiver, Status};
/// let error = Receiver::builder("unix:relative").open(&Context::new()?).unwrap_err();
/// assert_eq!(error.status(), Status::Invalid);
/// assert!(error.reason().contains("relative"), "{error}");
/// assert_eq!(error.native(), None);
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    status: Status,
    native: Option<(&'static str, i64)>,
    reason: String,
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of the application's own, for a function that the library calls.
    pub fn new(status: Status, reason: impl Into<String>) -> Error {
        Error { status, native: None, reason: reason.into() }
    }

    /// What kind of failure it is.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The message.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The number that the failing call gave, and whose number it is: `("errno", 98)`.
    pub fn native(&self) -> Option<(&'static str, i64)> {
        self.native
    }

    /// For a callback of C's: writes the failure, and returns its status.
    pub(crate) unsafe fn write(&self, error: *mut sys::gpud_error) -> sys::gpud_status {
        if let Some(error) = error.as_mut() {
            *error = std::mem::zeroed();
            error.status = self.status.to_raw();
            let bytes = self.reason.as_bytes();
            for (to, from) in error.reason[..sys::GPUD_REASON_MAX as usize - 1].iter_mut().zip(bytes) {
                *to = *from as c_char;
            }
        }
        self.status.to_raw()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.status {
            Status::Again => io::ErrorKind::Interrupted,
            Status::Timeout => io::ErrorKind::TimedOut,
            Status::Closed => io::ErrorKind::UnexpectedEof,
            Status::Invalid => io::ErrorKind::InvalidInput,
            Status::Unsupported => io::ErrorKind::Unsupported,
            Status::NoDevice => io::ErrorKind::NotFound,
            Status::NoMemory => io::ErrorKind::OutOfMemory,
            Status::NoAccess => io::ErrorKind::PermissionDenied,
            Status::Peer => io::ErrorKind::ConnectionReset,
            Status::Io | Status::Other(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// Makes a call of C's, whose failure becomes an [`Error`].
pub(crate) fn call(function: impl FnOnce(*mut sys::gpud_error) -> sys::gpud_status) -> Result<()> {
    let mut error = MaybeUninit::<sys::gpud_error>::uninit();
    let status = function(error.as_mut_ptr());
    if status == sys::GPUD_OK {
        return Ok(());
    }
    // The reason ends with a NUL; what lies behind it may not be initialised.
    let error = error.as_ptr();
    let (native, origin, reason) =
        unsafe { ((*error).native, (*error).origin, string(addr_of!((*error).reason) as *const c_char)) };
    let origin = match origin.is_null() {
        true => None,
        false => unsafe { CStr::from_ptr(origin) }.to_str().ok(), // 'static: types.h says so
    };
    Err(Error { status: Status::from_raw(status), native: origin.map(|origin| (origin, native)), reason })
}

/// A string of C's; empty for NULL.
pub(crate) fn string(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// An array of characters that ends with a NUL.
pub(crate) fn text(field: &[c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|&&one| one != 0).map(|&one| one as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Nanoseconds of a timeout, for C.
pub(crate) fn ns(timeout: Duration) -> i64 {
    timeout.as_nanos().min(i64::MAX as u128) as i64
}

/// A time of C's that may be "none".
pub(crate) fn time(ns: u64) -> Option<u64> {
    (ns != sys::GPUD_TIME_NONE).then_some(ns)
}
