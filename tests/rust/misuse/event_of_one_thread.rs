// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A receiver goes to other threads with its function.
use gpudirect::{Receiver, ReceiverBuilder};
use std::cell::Cell;
use std::rc::Rc;

pub fn count(events: Rc<Cell<u32>>) -> ReceiverBuilder {
    events.set(0);
    let builder = Receiver::builder("cam1");
    let builder = builder.on_event(move |_| events.set(events.get() + 1)); //~ E0277
    builder
}
