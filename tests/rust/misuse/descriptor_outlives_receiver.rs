// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The descriptor is closed with its receiver.
use gpudirect::{Receiver, Result};
use std::os::unix::io::AsRawFd;

pub fn poll(receiver: Receiver) -> Result<i32> {
    let fd = receiver.fd()?;
    drop(receiver); //~ E0505
    Ok(fd.as_raw_fd())
}
