// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A frame is the receivers' once it is submitted.
use gpudirect::{Frame, Result, Sender};
use std::time::Duration;

pub fn send(sender: &mut Sender, frame: Frame) -> Result<()> {
    sender.submit(frame, Duration::ZERO)?;
    sender.submit(frame, Duration::ZERO)?; //~ E0382
    Ok(())
}
