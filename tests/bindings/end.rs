// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The end in Rust: see conformance.py.

use gpudirect::{flags, Context, Error, Event, Frame, Receiver, ReceiverShared, Sender, SenderShared, Stamp, Status};
use std::collections::HashMap;
use std::io::{stdin, Read};
use std::os::raw::c_int;
use std::os::unix::io::AsRawFd;
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

struct Orders(HashMap<String, String>);

impl Orders {
    fn get<T: FromStr>(&self, name: &str, default: T) -> T {
        self.0.get(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value}?")))
    }

    fn list(&self, name: &str) -> Vec<u64> {
        self.0.get(name).map_or(vec![], |list| list.split(',').map(|one| one.parse().expect(name)).collect())
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.get("timeout", 10.0))
    }

    fn pause_at(&self, frames: u64) -> bool {
        let pauses = self.list("pause").contains(&frames);
        if pauses {
            println!("paused {frames}");
            await_line();
        }
        pauses
    }
}

fn await_line() {
    stdin().read_line(&mut String::new()).expect("standard input");
}

fn tell(error: &Error) {
    println!("status {} {error}", error.status());
}

// --- SIGINT interrupts the call that waits -------------------------------------------------------

static WAKE: AtomicI32 = AtomicI32::new(-1);

extern "C" {
    fn signal(number: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn write(fd: c_int, bytes: *const u8, count: usize) -> isize;
}

extern "C" fn on_signal(_: c_int) {
    unsafe { write(WAKE.load(Ordering::Relaxed), b"!".as_ptr(), 1) };
}

fn interrupt_by_signal(interrupt: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    const SIGINT: c_int = 2;
    let (mut awaited, wake) = UnixStream::pair()?;
    WAKE.store(wake.as_raw_fd(), Ordering::Relaxed);
    std::mem::forget(wake); // the handler's, up to the end
    thread::spawn(move || awaited.read_exact(&mut [0]).map(|_| interrupt()));
    unsafe { signal(SIGINT, on_signal) };
    println!("ready");
    Ok(())
}

// --- both ends -----------------------------------------------------------------------------------

/// The places of a frame's payload: the rows of all planes, or the bytes in use.
fn payload(frame: &Frame) -> Vec<std::ops::Range<usize>> {
    let (layout, bytes) = (frame.info().layout(), frame.info().bytes as usize);
    let mut rows = vec![];
    for plane in layout.planes() {
        for row in 0..plane.rows as usize {
            let start = plane.offset as usize + row * plane.stride as usize;
            rows.push(start.min(bytes)..(start + plane.row_bytes as usize).min(bytes));
        }
    }
    rows
}

fn send_one(sender: &mut Sender, number: u64, orders: &Orders) -> Result<(), Error> {
    let mut frame = sender.acquire(orders.timeout())?;
    let sizes = orders.list("sizes");
    if !sizes.is_empty() {
        frame.set_size(sizes[(number % sizes.len() as u64) as usize])?;
    }
    let places = payload(&frame).into_iter().flatten();
    let mut data = frame.map_mut(orders.timeout())?;
    for (at, place) in places.enumerate() {
        data[place] = ((7 * number + at as u64) % 251) as u8;
    }
    drop(data);
    let key = orders.get("key", 0);
    let flags = if key != 0 && number % key != 0 { flags::DELTA } else { 0 };
    frame.set(&Stamp { pts_ns: Some(number * 40_000_000), flags, ..Stamp::default() })?;
    Ok(sender.submit(frame, orders.timeout())?)
}

fn send(context: &Context, address: &str, orders: &Orders) -> Result<(), Error> {
    let media = orders.get("media", String::new()).parse()?;
    let mut sender = Sender::builder(address).media(&media).slots(orders.get("slots", 0)).open(context)?;
    let shared: Weak<SenderShared> = sender.shared();
    interrupt_by_signal(move || shared.upgrade().into_iter().for_each(|sender| sender.interrupt(true)))
        .map_err(|error| Error::new(Status::Io, error.to_string()))?;
    sender.wait(orders.get("receivers", 1), Duration::from_secs(10))?;
    for number in 0..orders.get("count", u64::MAX) {
        while let Err(error) = send_one(&mut sender, number, orders) {
            if error.status() != Status::Timeout {
                return Err(error);
            }
            tell(&error);
            await_line();
        }
        orders.pause_at(number + 1);
    }
    sender.send_eos()
}

fn look_at(word: &str, frame: &mut Frame, orders: &Orders) -> Result<(), Error> {
    let places = payload(frame);
    let data = frame.map(orders.timeout())?;
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in places.into_iter().flat_map(|place| &data[place]) {
        low = (low + byte as u32) % 65521;
        high = (high + low) % 65521;
    }
    drop(data);
    let (info, sum) = (frame.info(), high << 16 | low);
    if orders.get("quiet", 0) == 0 || word != "frame" {
        println!("{word} {} {} {} {} {sum}", info.sequence, info.pts_ns, info.flags, info.bytes);
    }
    Ok(())
}

fn release(held: &mut Vec<Frame>, orders: &Orders) -> Result<(), Error> {
    held.drain(..).try_for_each(|mut frame| look_at("held", &mut frame, orders))
}

fn receive(context: &Context, address: &str, orders: &Orders) -> Result<(), Error> {
    let on_event = |event: Event<'_>| {
        if let Event::Format { media, .. } = event {
            println!("media {media}");
        }
    };
    let (slots, late) = (orders.get("slots", 0), orders.get("late", 0) != 0);
    let mut receiver = Receiver::builder(address).slots(slots).on_event(on_event).open(context)?;
    let shared: Weak<ReceiverShared> = receiver.shared();
    interrupt_by_signal(move || shared.upgrade().into_iter().for_each(|receiver| receiver.interrupt(true)))
        .map_err(|error| Error::new(Status::Io, error.to_string()))?;
    let (mut held, mut count) = (vec![], 0);
    while count < orders.get("count", u64::MAX) {
        let mut frame = match receiver.acquire(orders.timeout()) {
            Ok(frame) => frame,
            Err(error) if error.status() == Status::Peer => {
                tell(&error); // the next call connects again
                continue;
            }
            Err(error) => {
                tell(&error);
                break;
            }
        };
        look_at("frame", &mut frame, orders)?;
        if count < orders.get("hold", 0) {
            held.push(frame);
        }
        count += 1;
        if orders.pause_at(count) && !late {
            release(&mut held, orders)?;
        }
    }
    if late {
        drop(receiver);
        println!("late");
        await_line();
    }
    release(&mut held, orders)
}

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: end send|receive ADDRESS NAME=VALUE…: see conformance.py";
    let (role, address) = (arguments.next().expect(usage), arguments.next().expect(usage));
    let order = |order: String| order.split_once('=').map(|(name, value)| (name.into(), value.into())).expect(usage);
    let orders = Orders(arguments.map(order).collect());
    let context = Context::new()?;
    let result = match role.as_str() {
        "send" => send(&context, &address, &orders),
        "receive" => receive(&context, &address, &orders),
        _ => panic!("{usage}"),
    };
    if let Err(error) = result {
        tell(&error);
    }
    drop(context);
    println!("end");
    Ok(())
}
