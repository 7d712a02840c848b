// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A frame that is mapped for writing cannot be mapped again.
use gpudirect::{Frame, Result};
use std::time::Duration;

pub fn change(mut frame: Frame) -> Result<()> {
    let mut first = frame.map_mut(Duration::ZERO)?;
    let _second = frame.map(Duration::ZERO)?; //~ E0499
    first[0] = 1;
    Ok(())
}
