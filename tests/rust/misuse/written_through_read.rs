// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A map for reading is not written.
use gpudirect::{Receiver, Result};
use std::time::Duration;

pub fn receive(receiver: &mut Receiver) -> Result<()> {
    let mut frame = receiver.acquire(Duration::ZERO)?;
    let bytes = frame.map(Duration::ZERO)?;
    bytes.first();
    bytes[0] = 1; //~ E0594
    Ok(())
}
