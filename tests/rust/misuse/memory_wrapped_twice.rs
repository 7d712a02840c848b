// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Memory is one frame's.
use gpudirect::{Frame, Layout, Memory, Result};

pub fn wrap(memory: Memory, layout: &Layout) -> Result<()> {
    let _first = Frame::wrap(memory, 0, layout)?;
    let _second = Frame::wrap(memory, 0, layout)?; //~ E0382
    Ok(())
}
