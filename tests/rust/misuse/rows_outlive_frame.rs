// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The same of the rows of a picture that is still written.
use gpudirect::{Receiver, Result};
use std::time::Duration;

pub fn receive(receiver: &mut Receiver) -> Result<u8> {
    let mut frame = receiver.acquire(Duration::ZERO)?;
    let rows = frame.rows(0, 1, Duration::ZERO)?;
    drop(frame); //~ E0505
    Ok(rows[0])
}
