// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The C API of libgpudirect, as `bindgen` reads its headers: `bindings.rs` is made by `generate`.
//! The headers say what each function does. The crate `gpudirect` is what applications use; this
//! one is for what that leaves out.
//!
//! ```
//! let version = unsafe { std::ffi::CStr::from_ptr(gpudirect_sys::gpud_version_string()) };
//! assert!(version.to_str().unwrap().starts_with("0."));
//! ```
#![allow(non_camel_case_types, non_upper_case_globals)]

mod bindings;
pub use bindings::*;

pub const GPUD_TIME_NONE: u64 = u64::MAX;
pub const GPUD_MODIFIER_IMPLICIT: u64 = gpud_modifier_implicit;
pub const GPUD_EVENT_STICKY: u32 = gpud_event_sticky;
