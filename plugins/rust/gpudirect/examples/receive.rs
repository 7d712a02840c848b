// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Receives any stream and prints what comes, across restarts of its sender: `cargo run --example receive cam1`.

use gpudirect::{Context, Details, Event, Receiver, Status};
use std::time::Duration;

fn main() -> gpudirect::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "cam1".to_string());
    let mut receiver = Receiver::builder(&address)
        .on_event(|event| match event {
            Event::Connected(peer) => println!("connected to {}, by {}", peer.name(), peer.path()),
            Event::Format { media, device, .. } => println!("frames on {device} are {media}"),
            Event::User { kind, data } => println!("message {kind}, {} bytes", data.len()),
            _ => {}
        })
        .open(&Context::new()?)?;
    loop {
        let mut frame = match receiver.acquire(Duration::from_secs(1)) {
            Ok(frame) => frame,
            Err(error) if error.status() == Status::Closed => break,
            Err(error) if matches!(error.status(), Status::Timeout | Status::Peer) => {
                eprintln!("{error}"); // the next call connects again
                continue;
            }
            Err(error) => return Err(error),
        };
        let tensors = match frame.media().as_ref().map(|media| media.details()) {
            Some(Details::Tensors(tensors)) => tensors,
            _ => vec![],
        };
        let batch = frame.media().map_or(0, |media| media.batch_of(frame.info().bytes));
        let sequence = frame.info().sequence;
        let pts_ns = frame.info().stamp().pts_ns;
        let bytes = frame.map(Duration::from_secs(1))?;
        let sum: u64 = bytes.iter().map(|&byte| byte as u64).sum();
        println!("frame {sequence} at {pts_ns:?}: {} bytes, their sum is {sum}", bytes.len());
        for tensor in tensors {
            let first = bytes[tensor.range(batch)].first();
            println!("  {} {:?} of {}: {first:?}…", tensor.name, tensor.shape, tensor.kind);
        }
    }
    println!("{} frames received, {} lost", receiver.info().frames, receiver.info().dropped);
    Ok(())
}
