// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The bytes of a frame that was given back are another frame's.
use gpudirect::{Receiver, Result};
use std::time::Duration;

pub fn receive(receiver: &mut Receiver) -> Result<u8> {
    let mut frame = receiver.acquire(Duration::ZERO)?;
    let bytes = frame.map(Duration::ZERO)?;
    drop(frame); //~ E0505
    Ok(bytes[0])
}
