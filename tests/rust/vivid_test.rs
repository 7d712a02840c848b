// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! `Capture`, on the kernel's vivid: modes, controls, pictures that change, an event loop, another thread's interrupt,
//! frames that are sent on. The argument is its node.

use gpudirect::*;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

/// Frames of an event loop's: without a wait in the library.
fn next(capture: &mut Capture) -> Frame {
    let end = Instant::now() + LONG;
    capture.fd().unwrap();
    while Instant::now() < end {
        if let Some(frame) = capture.try_acquire().unwrap() {
            return frame;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("no frame within 30 s: {:?}", capture);
}

fn main() {
    let address = format!("v4l2://{}", std::env::args().nth(1).expect("usage: vivid /dev/videoN"));
    let context = Context::new().unwrap();
    let mut capture = Capture::builder(&address).control("brightness", Value::Number(100)).open(&context).unwrap();
    assert_eq!(capture.info().driver(), "vivid");

    let modes = capture.modes(Some("UYVY")).unwrap();
    assert!(modes.iter().all(|mode| mode.format() == "UYVY") && capture.modes(None).unwrap().len() > modes.len());
    let mode = modes.iter().find(|mode| (mode.width_min, mode.height_min) == (640, 360)).expect("640x360");
    capture.configure(&mode.rate(15, 1)).unwrap();

    let media = capture.media();
    assert_eq!((media.format().as_str(), media.layout().width, media.layout().height), ("UYVY", 640, 360));
    assert!(matches!(media.details(), Details::Picture(picture) if (picture.rate.num, picture.rate.den) == (15, 1)));
    let mut first = capture.acquire(LONG).unwrap();
    assert_eq!(first.media(), Some(std::sync::Arc::new(media.clone())));
    assert!(first.info().stamp().pts_ns.is_some());
    let before = first.map(LONG).unwrap().to_vec();
    drop(first);
    let mut second = next(&mut capture);
    assert_ne!(*second.map(LONG).unwrap(), before[..]); // its pictures have a clock
    drop(second);

    capture.set_controls(&[("brightness", Value::Number(0)), ("test_pattern", Value::Text("100% Red"))]).unwrap();
    let error = capture.set_controls(&[("no_such_control", Value::Number(1))]).unwrap_err();
    assert!(error.status() == Status::Invalid && error.reason().contains("no_such_control"), "{error}");
    let error = capture.configure(&Mode::new("NV99", 640, 360).unwrap()).unwrap_err();
    assert!(!error.reason().is_empty(), "{error}");
    capture.configure(&mode.rate(15, 1)).unwrap();

    let mut sender = Sender::builder("vivid").media(&media).open(&context).unwrap();
    let mut receiver = Receiver::builder("vivid").open(&context).unwrap();
    let receiving = thread::spawn(move || {
        let mut frame = receiver.acquire(LONG).unwrap();
        let bytes = frame.map(LONG).unwrap().to_vec();
        bytes
    });
    sender.wait(1, LONG).unwrap();
    let mut frame = capture.acquire(LONG).unwrap();
    let captured = frame.map(LONG).unwrap().to_vec();
    sender.submit(frame, LONG).unwrap();
    assert!(receiving.join().unwrap() == captured, "it is another picture");

    let other = capture.shared();
    let interrupting = thread::spawn(move || other.upgrade().unwrap().interrupt(true));
    let error = loop {
        if let Err(error) = capture.acquire(LONG) {
            break error;
        }
    };
    assert_eq!(error.status(), Status::Again);
    interrupting.join().unwrap();
    capture.interrupt(false);
    capture.stop();
    assert!(capture.acquire(Duration::ZERO).is_err() && capture.info().frames >= 4);
    println!("{} frames of {media}", capture.info().frames);
}
