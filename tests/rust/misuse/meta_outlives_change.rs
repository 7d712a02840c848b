// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A frame's large meta is the frame's until it is set.
use gpudirect::{Frame, Result, Stamp};

pub fn change(mut frame: Frame) -> Result<usize> {
    let info = frame.info();
    let meta = info.stamp().large_meta;
    frame.set(&Stamp::default())?; //~ E0502
    Ok(meta.len())
}
