// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A receiver in a group is the group's.
use gpudirect::{Context, Group, Receiver, Result};
use std::time::Duration;

pub fn join(context: &Context, mut receiver: Receiver) -> Result<()> {
    let _group = Group::all().open(context, vec![receiver])?;
    receiver.acquire(Duration::ZERO)?; //~ E0382
    Ok(())
}
