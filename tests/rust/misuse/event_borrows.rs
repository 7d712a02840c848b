// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A receiver may live longer than what its function borrows.
use gpudirect::{Receiver, ReceiverBuilder};

pub fn count() -> ReceiverBuilder {
    let mut events = 0;
    events += 1;
    let builder = Receiver::builder("cam1");
    let builder = builder.on_event(|_| events += 1); //~ E0373
    builder
}
