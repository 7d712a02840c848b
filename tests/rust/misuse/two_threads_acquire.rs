// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! One thread at a time acquires.
use gpudirect::Receiver;
use std::thread::scope;
use std::time::Duration;

pub fn receive(receiver: &mut Receiver) {
    scope(|threads| {
        threads.spawn(|| receiver.acquire(Duration::ZERO).is_ok());
        threads.spawn(|| receiver.acquire(Duration::ZERO).is_ok()); //~ E0499
    });
}
