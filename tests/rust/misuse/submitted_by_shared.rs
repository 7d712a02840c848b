// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! What other threads have of a sender does not submit.
use gpudirect::{Frame, SenderShared};
use std::sync::Arc;
use std::time::Duration;

pub fn send(sender: Arc<SenderShared>, frame: Frame) {
    sender.announce();
    let _ = sender.submit(frame, Duration::ZERO); //~ E0599
}
