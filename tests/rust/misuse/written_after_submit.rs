// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A submitted frame belongs to the receivers, and cannot be written.
use gpudirect::{Result, Sender};
use std::time::Duration;

pub fn send(sender: &mut Sender) -> Result<()> {
    let mut frame = sender.acquire(Duration::ZERO)?;
    frame.map_mut(Duration::ZERO)?.fill(1);
    sender.submit(frame, Duration::ZERO)?;
    frame.map_mut(Duration::ZERO)?.fill(2); //~ E0382
    Ok(())
}
