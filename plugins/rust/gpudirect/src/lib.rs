// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Hands video, sound, data and tensors between processes, hosts and GPUs, without copying a frame more often than the
//! hardware demands.
//!
//! ```
//! use gpudirect::{Context, Media, Receiver, Sender};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let address = format!("doc-{}", std::process::id());
//! # let address = address.as_str();
//! const SECOND: Duration = Duration::from_secs(1);
//! let context = Context::new()?;
//! let media = Media::picture("RGBA", 320, 180).rate(60, 1).build()?;
//! let mut sender = Sender::builder(address).media(&media).open(&context)?; // "cam1"
//! let mut receiver = Receiver::builder(address).open(&context)?; // as a rule in another process
//! # std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
//! # let receiving = scope.spawn(move || -> gpudirect::Result<()> {
//!
//! let mut frame = receiver.acquire(10 * SECOND)?;
//! assert_eq!(frame.map(SECOND)?[0], 7);
//! # Ok(())
//! # });
//!
//! sender.wait(1, 10 * SECOND)?;
//! let mut frame = sender.acquire(SECOND)?; // the receiver's memory, where the route shares it
//! frame.map_mut(SECOND)?.fill(7);
//! sender.submit(frame, SECOND)?; // consumes the frame
//! # receiving.join().unwrap()?;
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! - What the library wants from one thread at a time takes `&mut self`; what any thread may call
//!   takes `&self`. [`Sender::shared`] and its like give other threads the latter.
//! - No wait is endless. What ends one is a [`Status`]; `interrupt(true)` ends it from outside.
//! - Event loops poll the descriptor of [`AsFd`](std::os::unix::io::AsFd): see [`Receiver::fd`].
//! - The C API, with what this crate leaves out, is [`sys`].
#![warn(missing_docs)]

use std::os::unix::ffi::OsStrExt;

mod capture;
mod context;
mod error;
mod frame;
mod group;
mod media;
mod receiver;
mod sender;

pub use capture::{Capture, CaptureBuilder, CaptureInfo, CaptureShared, Mode, Value};
pub use context::{Context, Device, LogLevel, Memory};
pub use error::{Error, Result, Status};
pub use frame::{flags, Frame, FrameInfo, Map, MapMut, Stamp};
pub use gpudirect_sys as sys;
pub use group::{Group, GroupBuilder, GroupInfo, Instant, MemberState, Select};
pub use media::{Details, Layout, Media, MediaBuilder, Tensor};
pub use receiver::{Event, Receiver, ReceiverBuilder, ReceiverInfo, ReceiverShared};
pub use sender::{
    KeyRequest, LinkInfo, PeerInfo, Sender, SenderBuilder, SenderInfo, SenderShared, SlowReceiver, SubmitError,
};

/// The version of the library that the program runs with.
///
/// ```
/// assert!(gpudirect::version().starts_with("0."));
/// ```
pub fn version() -> String {
    error::string(unsafe { sys::gpud_version_string() })
}

/// Structs that say in their first field how long they are.
///
/// # Safety
///
/// Zeroed they are valid, and their first field is that `size`.
pub(crate) unsafe trait Versioned {}

/// One of them, zeroed but for that.
pub(crate) fn sized<T: Versioned>() -> T {
    unsafe {
        let mut value: T = std::mem::zeroed();
        *(&mut value as *mut T as *mut usize) = std::mem::size_of::<T>();
        value
    }
}

macro_rules! sized {
    ($($name:ident)*) => { $(unsafe impl Versioned for sys::$name {})* };
}
sized! {
    gpud_context_params gpud_device_info gpud_frame_info gpud_sender_params gpud_sender_info gpud_link_info
    gpud_key_request gpud_receiver_params gpud_receiver_info gpud_switch_params gpud_group_params
    gpud_group_request gpud_group_instant gpud_group_info gpud_capture_params gpud_capture_config
    gpud_capture_mode gpud_capture_info gpud_vulkan_memory_info
}

/// Runs what a thread of the library's calls: a panic has nowhere to go from there.
pub(crate) fn or_abort<T>(function: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(function)).unwrap_or_else(|_| std::process::abort())
}

/// For event loops: `None` if nothing is there now.
pub(crate) fn if_there<T>(acquired: Result<T>) -> Result<Option<T>> {
    match acquired {
        Err(error) if error.status() == Status::Timeout => Ok(None),
        acquired => acquired.map(Some),
    }
}

/// Strings that a params struct of C's points to, and what was wrong with one.
#[derive(Default)]
pub(crate) struct Texts {
    all: Vec<std::ffi::CString>,
    failed: Option<Error>,
}

impl Texts {
    pub(crate) fn add(&mut self, value: &std::ffi::OsStr) -> *const std::os::raw::c_char {
        let value = value.as_bytes();
        match std::ffi::CString::new(value) {
            Ok(value) => self.all.push(value),
            Err(_) => {
                let reason = format!("{:?} has a NUL", String::from_utf8_lossy(value));
                self.failed = Some(Error::new(Status::Invalid, reason));
            }
        }
        self.all.last().map_or(std::ptr::null(), |last| last.as_ptr())
    }

    pub(crate) fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// Functions of a builder that set fields of its `params`.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $kind:tt;)*) => {
        $(crate::options! { @$kind $(#[$doc])* $name })*
    };
    (@text $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: impl AsRef<std::ffi::OsStr>) -> Self {
            self.params.$name = self.texts.add(value.as_ref());
            self
        }
    };
    (@bool $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self) -> Self {
            self.params.$name = true;
            self
        }
    };
    (@policy $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, policy: crate::SlowReceiver) -> Self {
            self.params.$name = policy as _;
            self
        }
    };
    (@duration $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, time: std::time::Duration) -> Self {
            self.params.$name = crate::error::ns(time);
            self
        }
    };
    (@$number:ident $(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name(mut self, value: $number) -> Self {
            self.params.$name = value;
            self
        }
    };
}
pub(crate) use options;

/// The descriptor of an object that has `fd()`, for event loops.
macro_rules! descriptor {
    ($name:ident) => {
        /// # Panics
        ///
        /// If no descriptor can be made, as at the process's limit; `fd()` reports that, and once it succeeded this
        /// does not fail.
        impl std::os::unix::io::AsFd for $name {
            fn as_fd(&self) -> std::os::unix::io::BorrowedFd<'_> {
                self.fd().unwrap_or_else(|error| panic!("{error}"))
            }
        }

        /// As of `AsFd`.
        impl std::os::unix::io::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::unix::io::RawFd {
                std::os::unix::io::AsFd::as_fd(self).as_raw_fd()
            }
        }
    };
}
pub(crate) use descriptor;

/// What objects have alike: an owner, whose `&mut self` the library wants from one thread at a time, and behind it a
/// part that any thread may use.
macro_rules! object {
    ($name:ident $shared:ident $info:ident $raw:ident, $get_info:ident $get_fd:ident $destroy:ident) => {
        // The headers say so of what takes &self.
        unsafe impl Send for $shared {}
        unsafe impl Sync for $shared {}

        impl $name {
            /// The part for other threads; it does not keep this object alive.
            pub fn shared(&self) -> std::sync::Weak<$shared> {
                Arc::downgrade(&self.shared)
            }

            /// A descriptor for event loops: readable when a call with a timeout of zero that gave `Timeout` before (or
            /// `try_acquire()` that gave `None`) may succeed. Repeat the call until it gives that again, which arms the
            /// descriptor. In tokio: `AsyncFd::new(object)?`, in mio: `SourceFd(&object.as_raw_fd())`.
            pub fn fd(&self) -> Result<std::os::unix::io::BorrowedFd<'_>> {
                let mut fd = -1;
                call(|error| unsafe { sys::$get_fd(self.raw, &mut fd, error) })?;
                Ok(unsafe { std::os::unix::io::BorrowedFd::borrow_raw(fd) })
            }
        }

        impl std::ops::Deref for $name {
            type Target = $shared;

            fn deref(&self) -> &$shared {
                &self.shared
            }
        }

        impl $shared {
            /// State and counters.
            pub fn info(&self) -> $info {
                let mut info = $info(crate::sized());
                unsafe { sys::$get_info(self.raw, &mut info.0) };
                info
            }

            /// For calls of [`sys`]; it stays this object's.
            pub fn as_ptr(&self) -> *mut sys::$raw {
                self.raw
            }
        }

        impl Drop for $shared {
            fn drop(&mut self) {
                unsafe { sys::$destroy(&mut self.raw) }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.info()).finish()
            }
        }

        crate::descriptor! { $name }
    };
}
pub(crate) use object;

/// A struct of C's that comes out: its numbers are fields, its texts methods.
macro_rules! info {
    ($(#[$doc:meta])* $name:ident: $raw:ident { $($text:ident),* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(pub(crate) crate::sys::$raw);

        impl $name {
            $(#[doc = concat!("As `", stringify!($raw), ".", stringify!($text), "`.")]
            pub fn $text(&self) -> String {
                crate::error::text(&self.0.$text)
            })*
        }

        impl std::ops::Deref for $name {
            type Target = crate::sys::$raw;

            fn deref(&self) -> &crate::sys::$raw {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($text), &self.$text()))*.finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use info;
