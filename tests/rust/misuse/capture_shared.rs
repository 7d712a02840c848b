// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A capture's descriptor is made by one thread at a time.
use gpudirect::Capture;
use std::thread::scope;

pub fn poll(capture: &Capture) {
    scope(|threads| {
        capture.fd().is_ok();
        threads.spawn(|| capture.fd().is_ok()); //~ E0277
    });
}
