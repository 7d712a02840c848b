// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! Sends a moving bar, 25 pictures a second: `cargo run --example send cam1 [FRAMES]`.

use gpudirect::{Context, Media, Sender, SlowReceiver, Stamp, Status};
use std::time::{Duration, Instant};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 360;
const PERIOD: Duration = Duration::from_millis(40);

fn main() -> gpudirect::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "cam1".to_string());
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(u64::MAX);

    let context = Context::new()?;
    let media = Media::picture("GRAY8", WIDTH, HEIGHT).rate(25, 1).build()?;
    let mut sender = Sender::builder(&address)
        .media(&media)
        .slow_receiver(SlowReceiver::DropOldest)
        .on_connect(|peer| eprintln!("{} connected, by {}", peer.name(), peer.path()))
        .open(&context)?;
    while let Err(error) = sender.wait(1, Duration::from_secs(1)) {
        match error.status() {
            Status::Timeout => eprintln!("nobody receives {address} yet"),
            _ => return Err(error),
        }
    }
    let begin = Instant::now();
    for number in 0..count {
        let mut frame = sender.acquire(Duration::from_secs(1))?;
        let stride = frame.info().layout().planes()[0].stride as usize;
        for row in frame.map_mut(Duration::from_secs(1))?.chunks_mut(stride) {
            for (x, pixel) in row.iter_mut().enumerate() {
                *pixel = ((x as u64 + 4 * number) % 256) as u8;
            }
        }
        let pts = PERIOD * number as u32;
        frame.set(&Stamp { pts_ns: Some(pts.as_nanos() as u64), offset: Some(number), ..Stamp::default() })?;
        sender.submit(frame, Duration::from_secs(1))?;
        std::thread::sleep((pts + PERIOD).saturating_sub(begin.elapsed()));
    }
    sender.send_eos()
}
