// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The data of an event live during the call.
use gpudirect::{Event, Receiver, ReceiverBuilder};

pub fn keep(kept: &'static std::sync::Mutex<Vec<&'static [u8]>>) -> ReceiverBuilder {
    Receiver::builder("cam1").on_event(|event| {
        if let Event::User { data, .. } = event {
            kept.lock().unwrap().push(&[]);
            kept.lock().unwrap().push(data); //~ E0521
        }
    })
}
