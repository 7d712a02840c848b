// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A frame is unmapped before it is submitted.
use gpudirect::{Result, Sender};
use std::time::Duration;

pub fn send(sender: &mut Sender) -> Result<()> {
    let mut frame = sender.acquire(Duration::ZERO)?;
    let mut bytes = frame.map_mut(Duration::ZERO)?;
    bytes[0] = 1;
    sender.submit(frame, Duration::ZERO)?; //~ E0505
    bytes[0] = 2;
    Ok(())
}
