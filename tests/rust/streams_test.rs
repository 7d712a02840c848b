// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The crate `gpudirect` beside what tests/bindings shows of it: events, metas, memory of the application's own,
//! groups, rows, descriptors, other threads, panics. Frames lie on the device of the environment's DEVICE, or on the
//! host.

use gpudirect::*;
use std::os::raw::c_int;
use std::os::unix::io::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(30);

fn device() -> String {
    std::env::var("DEVICE").unwrap_or_else(|_| "host".to_string())
}

fn on_host() -> bool {
    device() == "host"
}

fn gray() -> Media {
    Media::picture("GRAY8", 64, 48).rate(25, 1).build().unwrap()
}

fn send_at(address: &str, media: &Media, context: &Context) -> Sender {
    Sender::builder(address).media(media).device(device()).open(context).unwrap()
}

fn receive_at(address: &str, context: &Context) -> Receiver {
    Receiver::builder(address).device(device()).open(context).unwrap()
}

/// What happens in calls of acquire, until the sender has a receiver.
fn connect(sender: &Sender, receiver: &mut Receiver) {
    for _ in 0..3000 {
        assert!(receiver.try_acquire().unwrap().is_none());
        if sender.wait(1, Duration::from_millis(10)).is_ok() {
            return;
        }
    }
    panic!("no connection within 30 s: {:?}", receiver.acquire(SECOND));
}

fn send(sender: &mut Sender, value: u8, stamp: &Stamp<'_>) {
    let mut frame = sender.acquire(LONG).unwrap();
    frame.map_mut(LONG).unwrap().fill(value);
    frame.set(stamp).unwrap();
    sender.submit(frame, LONG).unwrap();
}

fn at(ms: u64) -> Stamp<'static> {
    Stamp { pts_ns: Some(ms * 1_000_000), ..Stamp::default() }
}

#[test]
fn the_crates_are_of_the_librarys_version() {
    assert_eq!(env!("CARGO_PKG_VERSION"), version());
    let (major, minor, micro) = (sys::GPUD_VERSION_MAJOR, sys::GPUD_VERSION_MINOR, sys::GPUD_VERSION_MICRO);
    assert_eq!(format!("{major}.{minor}.{micro}"), version());
}

#[test]
fn objects_go_between_threads_as_the_headers_say() {
    fn both<T: Send + Sync>() {}
    both::<Context>();
    both::<Frame>();
    both::<Sender>();
    both::<Receiver>();
    both::<Group>();
    both::<CaptureShared>();
    both::<Memory>();
    both::<Error>();
    fn one<T: Send>() {}
    one::<Capture>();
}

#[test]
fn events_and_metas_come_in_order_with_the_frames() {
    let context = Context::new().unwrap();
    let mut sender = send_at("events", &gray(), &context);
    sender.send_event(sys::GPUD_EVENT_STICKY | 1, b"before").unwrap();
    let (tell, told) = mpsc::channel();
    let mut receiver = Receiver::builder("events")
        .device(device())
        .name("rust")
        .on_event(move |event| {
            let text = match event {
                Event::Connected(peer) => format!("connected {}", peer.same_clock),
                Event::Format { media, .. } => format!("{media}"),
                Event::User { kind, data } => format!("{} {}", kind & 0xff, String::from_utf8_lossy(data)),
                other => format!("{other:?}"),
            };
            tell.send(text).unwrap()
        })
        .open(&context)
        .unwrap();
    connect(&sender, &mut receiver);
    assert_eq!(sender.links()[0].name(), "rust");
    let large = vec![9; 5000];
    let flags = flags::USER << 2;
    send(&mut sender, 1, &Stamp { offset: Some(3), flags, meta: b"mine", large_meta: &large, ..at(40) });
    sender.send_event(2, b"after").unwrap();
    sender.send_eos().unwrap();

    let mut frame = receiver.acquire(LONG).unwrap();
    let mut events: Vec<String> = told.try_iter().collect();
    events.sort(); // which of the three is first is not promised
    assert_eq!(events, ["1 before".to_string(), "connected true".to_string(), gray().to_string()]);
    let info = frame.info();
    let stamp = info.stamp();
    assert_eq!((stamp.pts_ns, stamp.dts_ns, stamp.offset), (Some(40_000_000), None, Some(3)));
    assert_eq!((stamp.flags & flags, stamp.meta, stamp.large_meta), (flags, &b"mine"[..], &large[..]));
    assert_eq!((info.sequence, info.device(), info.bytes), (1, device(), 64 * 48));
    assert!(info.submitted_ns().is_some() && info.slot().is_some());
    assert_eq!(frame.media().as_deref(), Some(&gray()));
    assert!(frame.map(LONG).unwrap().iter().all(|&byte| byte == 1));
    drop(frame);
    assert_eq!(receiver.acquire(LONG).unwrap_err().status(), Status::Closed);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["2 after"]);
    let error = sender.send_event(2, &[0; 4000]).unwrap_err();
    assert!(error.status() == Status::Invalid && !error.reason().is_empty(), "{error}");
}

#[test]
fn frames_come_in_memory_of_the_application() {
    let context = Context::new().unwrap();
    let mut sender = send_at("own", &gray(), &context);
    let on = context.device(&device()).unwrap();
    let made = Arc::new(AtomicU32::new(0));
    let count = made.clone();
    let mut receiver = Receiver::builder("own")
        .device(device())
        .slots(3)
        .alloc(move |layout, slot| {
            assert!(slot < 3);
            count.fetch_add(1, SeqCst);
            Memory::alloc(&on, layout.size)
        })
        .open(&context)
        .unwrap();
    connect(&sender, &mut receiver);
    for value in 1..9 {
        send(&mut sender, value, &at(0));
        let mut frame = receiver.acquire(LONG).unwrap();
        assert_eq!(frame.info().flags & flags::READ_ONLY, 0);
        frame.map_update(LONG).unwrap()[0] = 99; // it is the application's alone
        let bytes = frame.map(LONG).unwrap();
        assert_eq!((bytes[0], bytes[1]), (99, value));
    }
    assert!((1..=3).contains(&made.load(SeqCst)), "{made:?}");
    assert!(receiver.info().fallback_reason().contains("memory"), "{}", receiver.info().fallback_reason());
}

#[test]
fn memory_of_the_application_is_sent_and_dropped() {
    struct Owner(Arc<AtomicU32>, Box<[u8]>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let context = Context::new().unwrap();
    let host = context.device("host").unwrap();
    let (media, dropped) = (gray(), Arc::new(AtomicU32::new(0)));
    let mut sender = send_at("sent", &media, &context);
    let mut receiver = receive_at("sent", &context);
    connect(&sender, &mut receiver);
    let mut owner = Owner(dropped.clone(), vec![5; 64 * 48].into());
    let (start, size) = (owner.1.as_mut_ptr().cast(), owner.1.len() as u64);
    let memory = unsafe { Memory::wrap(&host, start, size, move || drop(owner)) }.unwrap();
    sender.submit(Frame::wrap(memory, 0, &media.layout()).unwrap(), LONG).unwrap();
    assert_eq!(receiver.acquire(LONG).unwrap().map(LONG).unwrap()[64 * 48 - 1], 5);
    drop((receiver, sender, host, context));
    assert_eq!(dropped.load(SeqCst), 1);

    let host = Context::new().unwrap().device("host").unwrap();
    let small = Memory::from_vec(&host, vec![0; 10]).unwrap();
    assert_eq!(Frame::wrap(small, 0, &media.layout()).unwrap_err().status(), Status::Invalid);
    assert!(Memory::import_dmabuf(&host, std::fs::File::open("/dev/null").unwrap(), 0, 1).is_err());
}

#[test]
fn frames_outlive_what_they_came_from() {
    let context = Context::new().unwrap();
    let mut sender = send_at("outlived", &gray(), &context);
    let mut receiver = receive_at("outlived", &context);
    connect(&sender, &mut receiver);
    send(&mut sender, 7, &at(0));
    let mut frame = receiver.acquire(LONG).unwrap();
    let lent = sender.acquire(LONG).unwrap();
    drop((context, receiver, sender, lent));
    let sum = thread::spawn(move || frame.map(LONG).unwrap().iter().map(|&byte| byte as u32).sum::<u32>());
    assert_eq!(sum.join().unwrap(), 7 * 64 * 48);
}

#[test]
fn received_frames_are_sent_on_within_one_context() {
    let (context, other) = (Context::new().unwrap(), Context::new().unwrap());
    let (mut first, mut second) = (send_at("first", &gray(), &context), send_at("second", &gray(), &context));
    let (mut middle, mut last) = (receive_at("first", &context), receive_at("second", &context));
    connect(&first, &mut middle);
    connect(&second, &mut last);
    send(&mut first, 8, &at(120));
    let mut frame = middle.acquire(LONG).unwrap();
    second.submit_keep(&mut frame, LONG).unwrap();
    assert_eq!(frame.map(LONG).unwrap()[0], 8);
    second.submit(frame, LONG).unwrap();
    for sequence in 1..3 {
        let mut frame = last.acquire(LONG).unwrap();
        assert_eq!((frame.info().sequence, frame.info().stamp().pts_ns), (sequence, Some(120_000_000)));
        assert_eq!(frame.map(LONG).unwrap()[0], 8);
    }
    let mut foreign = send_at("foreign", &gray(), &other);
    let refused = foreign.submit(second.acquire(LONG).unwrap(), LONG).unwrap_err();
    assert!(refused.to_string().contains("another context"), "{refused}");
    second.submit(refused.frame.unwrap(), LONG).unwrap();
}

#[test]
fn a_frame_that_finds_no_room_comes_back() {
    let context = Context::new().unwrap();
    let mut sender = send_at("room", &gray(), &context);
    let mut receiver = Receiver::builder("room").device(device()).slots(2).open(&context).unwrap();
    connect(&sender, &mut receiver);
    send(&mut sender, 1, &at(0));
    let held = receiver.acquire(LONG).unwrap();
    send(&mut sender, 2, &at(0));
    let mut frame = sender.acquire(LONG).unwrap();
    frame.map_mut(LONG).unwrap().fill(3);
    let refused = sender.submit(frame, Duration::ZERO).unwrap_err();
    assert_eq!(refused.error.status(), Status::Timeout);
    drop((held, receiver.acquire(LONG).unwrap()));
    sender.submit(refused.frame.unwrap(), LONG).unwrap();
    assert_eq!(receiver.acquire(LONG).unwrap().map(LONG).unwrap()[0], 3);

    sender.set_slow_receiver(SlowReceiver::DropOldest).unwrap();
    (4..20).for_each(|value| send(&mut sender, value, &at(0)));
    let mut newest = receiver.acquire(LONG).unwrap();
    while let Some(frame) = receiver.try_acquire().unwrap() {
        newest = frame;
    }
    assert_eq!(newest.map(LONG).unwrap()[0], 19);
    assert!(sender.info().dropped > 0 && receiver.info().dropped == sender.info().dropped);
}

#[test]
fn tensors_have_a_batch() {
    let context = Context::new().unwrap();
    let tensors = [Tensor::new("boxes", "float32", &[64, 6]).batch(), Tensor::new("features", "uint8", &[100])];
    let media = Media::tensors(&tensors).rate(25, 1).build().unwrap();
    let mut sender = send_at("tensors", &media, &context);
    let mut receiver = receive_at("tensors", &context);
    connect(&sender, &mut receiver);
    let mut frame = sender.acquire(LONG).unwrap();
    frame.set_size(media.batch_bytes(3).unwrap()).unwrap();
    frame.map_mut(LONG).unwrap()[256..].chunks_mut(4).for_each(|one| one.copy_from_slice(&1.5f32.to_ne_bytes()));
    sender.submit(frame, LONG).unwrap();

    let mut frame = receiver.acquire(LONG).unwrap();
    let media = frame.media().unwrap();
    let batch = media.batch_of(frame.info().bytes);
    let found = match media.details() {
        Details::Tensors(tensors) => tensors,
        _ => panic!("{media}"),
    };
    assert_eq!((batch, found.len(), &found[1].name[..], found[1].range(batch)), (3, 2, "features", 0..100));
    let bytes = &frame.map(LONG).unwrap()[found[0].range(batch)];
    assert_eq!(bytes.len(), 3 * 6 * 4);
    assert!(bytes.chunks(4).all(|one| f32::from_ne_bytes(one.try_into().unwrap()) == 1.5));
    assert!(Media::tensors(&[]).build().is_err() && Media::tensors(&vec![tensors[1].clone(); 70]).build().is_err());
}

#[test]
fn rows_are_read_while_the_rest_is_written() {
    let context = Context::new().unwrap();
    let mut sender = send_at("rows", &gray(), &context);
    let mut receiver = Receiver::builder("rows").device(device()).by_lines().open(&context).unwrap();
    connect(&sender, &mut receiver);
    let mut written = sender.acquire(LONG).unwrap();
    written.map_mut(LONG).unwrap().fill(1);
    sender.submit_lines(&mut written, 24, LONG).unwrap();
    if !on_host() {
        let error = receiver.acquire(LONG).and_then(|mut frame| frame.rows(0, 24, LONG).map(|_| ())).unwrap_err();
        assert!(error.reason().contains("wait_lines"), "{error}");
        return;
    }
    let mut frame = receiver.acquire(LONG).unwrap();
    assert_eq!(frame.rows(0, 24, LONG).unwrap(), [1; 24 * 64]);
    assert_eq!(frame.rows(0, 25, Duration::ZERO).unwrap_err().status(), Status::Timeout);
    assert_eq!(frame.rows(1, 1, Duration::ZERO).unwrap_err().status(), Status::Unsupported);
    assert_eq!(written.map_update(LONG).map(|_| ()).unwrap_err().status(), Status::Invalid); // they are read
    let mut others = written.rows_mut(0, LONG).unwrap();
    assert_eq!(others.len(), 24 * 64);
    others.fill(2);
    drop(others);
    sender.submit_lines(&mut written, 48, LONG).unwrap();
    let rows = frame.rows(0, 48, LONG).unwrap();
    assert_eq!((&rows[..24 * 64], &rows[24 * 64..]), (&[1; 24 * 64][..], &[2; 24 * 64][..]));
    assert_eq!(written.rows_mut(0, LONG).map(|_| ()).unwrap_err().status(), Status::NoAccess);
}

#[test]
fn a_receiver_changes_its_sender() {
    let context = Context::new().unwrap();
    let (mut old, mut new) = (send_at("old", &gray(), &context), send_at("new", &gray(), &context));
    let (tell, told) = mpsc::channel();
    let mut receiver = Receiver::builder("old")
        .device(device())
        .on_event(move |event| {
            if let Event::Switched { address, result } = event {
                tell.send((address, result.map_err(|error| error.status()))).unwrap()
            }
        })
        .open(&context)
        .unwrap();
    connect(&old, &mut receiver);
    let other = receiver.shared();
    thread::spawn(move || other.upgrade().unwrap().switch("new", LONG).unwrap()).join().unwrap();
    let mut found = 0;
    for _ in 0..3000 {
        send(&mut old, 1, &at(0));
        send(&mut new, 2, &at(0));
        if let Ok(mut frame) = receiver.acquire(Duration::from_millis(10)) {
            found = frame.map(LONG).unwrap()[0];
        }
        if found == 2 {
            break;
        }
    }
    assert_eq!((found, told.try_recv().unwrap()), (2, ("new".to_string(), Ok(()))));
}

#[test]
fn key_frames_are_asked_for() {
    let context = Context::new().unwrap();
    let sender = send_at("keys", &Media::data("video/x-h264", 4096).build().unwrap(), &context);
    let mut receiver = receive_at("keys", &context);
    connect(&sender, &mut receiver);
    sender.take_key_request(); // the library's, for the new receiver
    let wanted = KeyRequest { at_once: true, all_headers: true, time_ns: Some(5) };
    receiver.request_key(&wanted);
    let asked = (0..3000).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        sender.take_key_request()
    });
    assert_eq!(asked, Some(wanted));
}

#[test]
fn a_panic_of_a_callback_leaves_by_acquire() {
    let context = Context::new().unwrap();
    let mut sender = send_at("panic", &gray(), &context);
    let mut receiver = Receiver::builder("panic")
        .device(device())
        .on_event(|event| {
            if let Event::User { kind: 3, .. } = event {
                panic!("of the application")
            }
        })
        .open(&context)
        .unwrap();
    connect(&sender, &mut receiver);
    sender.send_event(3, &[]).unwrap();
    send(&mut sender, 1, &at(0));
    let caught = catch_unwind(AssertUnwindSafe(|| receiver.acquire(LONG))).unwrap_err();
    assert_eq!(caught.downcast_ref(), Some(&"of the application"));
    send(&mut sender, 2, &at(0));
    assert!(receiver.acquire(LONG).is_ok()); // nothing of it is left
}

#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
struct EpollEvent {
    events: u32,
    data: u64,
}

extern "C" {
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut EpollEvent) -> c_int;
    fn epoll_wait(epoll: c_int, events: *mut EpollEvent, room: c_int, timeout_ms: c_int) -> c_int;
}

/// An event loop that hears of changes alone, as those of tokio and mio.
struct EdgeLoop(OwnedFd);

impl EdgeLoop {
    fn new(object: &impl AsRawFd) -> EdgeLoop {
        const ADD: c_int = 1;
        const IN: u32 = 1;
        const EDGES: u32 = 1 << 31;
        let mut event = EpollEvent { events: IN | EDGES, data: 0 };
        unsafe {
            let epoll = OwnedFd::from_raw_fd(epoll_create1(0));
            assert_eq!(epoll_ctl(epoll.as_raw_fd(), ADD, object.as_raw_fd(), &mut event), 0);
            EdgeLoop(epoll)
        }
    }

    fn wait(&self) {
        let mut event = EpollEvent { events: 0, data: 0 };
        assert_eq!(unsafe { epoll_wait(self.0.as_raw_fd(), &mut event, 1, 30_000) }, 1, "it does not wake up");
    }
}

/// Takes frames when the loop wakes up, until 20 are here.
fn take_by_edges<T: AsRawFd>(mut object: T, mut sender: Sender, mut next: impl FnMut(&mut T) -> bool) {
    let edges = EdgeLoop::new(&object);
    let sending = thread::spawn(move || {
        sender.wait(1, LONG).unwrap();
        (1..=20).for_each(|value| send(&mut sender, value, &at(value as u64 * 40)));
        sender
    });
    let mut frames = 0;
    while frames < 20 {
        match next(&mut object) {
            true => frames += 1,
            false => edges.wait(),
        }
    }
    drop(sending.join().unwrap());
}

#[test]
fn a_descriptor_wakes_an_event_loop_that_hears_of_changes_alone() {
    let context = Context::new().unwrap();
    for round in 0..10 {
        let (one, two) = (format!("loop-{round}"), format!("loop-group-{round}"));
        let sender = send_at(&one, &gray(), &context);
        take_by_edges(receive_at(&one, &context), sender, |receiver| receiver.try_acquire().unwrap().is_some());
        let sender = send_at(&two, &gray(), &context);
        let group = Group::any().open(&context, vec![receive_at(&two, &context)]).unwrap();
        take_by_edges(group, sender, |group| group.try_acquire().unwrap().is_some());
    }
}

/// Sends to both until the group has an instant.
fn instant(group: &mut Group, senders: &mut [Sender], ms: &mut u64, wanted: impl Fn(&Instant) -> bool) -> Instant {
    for _ in 0..3000 {
        *ms += 40;
        senders.iter_mut().zip(1..).for_each(|(sender, value)| send(sender, value, &at(*ms)));
        match group.acquire(Select::Next, 0, Duration::from_millis(40)) {
            Ok(instant) if wanted(&instant) => return instant,
            Ok(_) => {}
            Err(error) => assert_eq!(error.status(), Status::Timeout, "{error}"),
        }
    }
    panic!("no such instant: {:?}", group.info(0));
}

#[test]
fn groups_hand_on_instants() {
    let context = Context::new().unwrap();
    let names = ["main", "backup"];
    let mut senders = names.map(|name| {
        let sender = send_at(name, &gray(), &context);
        sender.set_slow_receiver(SlowReceiver::DropOldest).unwrap();
        sender
    });
    let receivers = names.iter().map(|name| receive_at(name, &context)).collect();
    let mut ms = 0;
    let mut group = Group::all().latency(SECOND).open(&context, receivers).unwrap();
    let both = |instant: &Instant| instant.missing == 0;
    let mut found = instant(&mut group, &mut senders, &mut ms, both);
    assert_eq!(found.states, [MemberState::Present, MemberState::Present]);
    for (value, frame) in (1..).zip(&mut found.frames) {
        let frame = frame.as_mut().unwrap();
        assert_eq!(frame.media().as_deref(), Some(&gray()));
        assert_eq!(frame.info().stamp().pts_ns, Some(found.time_ns));
        assert_eq!(frame.map(LONG).unwrap()[0], value);
    }
    assert!(group.fd().is_ok() && group.info(0).instants > 0 && group.info(1).reason().is_empty());

    let member = group.members().remove(1);
    let waiting = thread::spawn(move || loop {
        if let Err(error) = group.acquire(Select::Next, 0, LONG) {
            return (error, group);
        }
    });
    member.upgrade().unwrap().interrupt(true);
    let (error, group) = waiting.join().unwrap();
    assert_eq!(error.status(), Status::Again, "{error}");
    member.upgrade().unwrap().interrupt(false);

    let mut receivers = group.into_receivers();
    let frame = (0..3000).find_map(|_| {
        send(&mut senders[0], 1, &at(ms));
        receivers[0].acquire(Duration::from_millis(10)).ok()
    });
    assert_eq!(frame.unwrap().media().as_deref(), Some(&gray()));

    let (tell, told) = mpsc::channel();
    let times = Arc::new(AtomicU32::new(0));
    let count = times.clone();
    let mut group = Group::any()
        .on_event(move |member, event| {
            if let Event::User { data, .. } | Event::Repeated { data, .. } = event {
                tell.send((member, data.to_vec())).unwrap()
            }
        })
        .time(move |_, info| {
            count.fetch_add(1, SeqCst);
            info.stamp().pts_ns
        })
        .open(&context, receivers)
        .unwrap();
    let events = names.iter().zip(&mut senders);
    events.for_each(|(name, sender)| sender.send_event(sys::GPUD_EVENT_STICKY, name.as_bytes()).unwrap());
    let found = instant(&mut group, &mut senders, &mut ms, |instant| instant.frames[0].is_some());
    assert_eq!((found.member, found.frames.iter().flatten().count()), (0, 1));
    let [main, backup] = senders;
    drop((main, found));
    let found = instant(&mut group, &mut [backup], &mut ms, |instant| instant.member == 1);
    assert!(found.frames[1].is_some() && times.load(SeqCst) > 1);
    assert!(told.try_iter().any(|event| event == (1, b"backup".to_vec())));
}

#[test]
fn an_interrupt_is_not_lost_while_a_group_ends() {
    let context = Context::new().unwrap();
    let mut receivers = vec![receive_at("nowhere-1", &context), receive_at("nowhere-2", &context)];
    for delay in 0..200 {
        let group = Group::all().open(&context, receivers).unwrap();
        let member = group.members().remove(0);
        let interrupting = thread::spawn(move || {
            thread::sleep(Duration::from_micros(delay));
            member.upgrade().unwrap().interrupt(true)
        });
        receivers = group.into_receivers();
        interrupting.join().unwrap();
        assert_eq!(receivers[0].acquire(Duration::ZERO).unwrap_err().status(), Status::Again);
        receivers[0].interrupt(false);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let context = Context::new().unwrap();
    let error = Capture::builder("v4l2:///dev/null").open(&context).unwrap_err();
    assert!(error.status() == Status::NoDevice && error.reason().contains("/dev/null"), "{error:?}");
    let error = Capture::builder("v4l2:///dev/video9").control("a\0b", Value::Number(1)).open(&context).unwrap_err();
    assert!(error.status() == Status::Invalid && error.reason().contains("NUL"), "{error:?}");
    let first = send_at("taken", &gray(), &context);
    let error = Sender::builder("taken").open(&context).unwrap_err();
    assert_eq!((error.status(), error.native().map(|native| native.0)), (Status::Io, Some("errno")));
    assert_eq!(std::io::Error::from(error.clone()).to_string(), error.reason());
    let mut receiver = receive_at("taken", &context);
    connect(&first, &mut receiver);
    drop(receiver);
    assert!((0..3000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        first.info().receivers == 0
    }));
    drop(first);
    drop(send_at("taken", &gray(), &context));
    assert!(context.device("cuda:99").is_err());
    assert!("video/x-raw".parse::<Media>().is_err());
    assert!(Media::data("meta/x-klv", 10).layout(&gray().layout()).build().is_err());

    let lines = Arc::new(AtomicU32::new(0));
    let count = lines.clone();
    let log = move |level, _: &str, text: &str| {
        assert!(level <= LogLevel::Info && !text.is_empty());
        count.fetch_add(1, SeqCst);
    };
    let context = Context::with_log(LogLevel::Info, log).unwrap();
    let sender = send_at("logged", &gray(), &context);
    connect(&sender, &mut receive_at("logged", &context));
    assert!(lines.load(SeqCst) > 0);
}

#[test]
fn a_frame_has_what_drivers_need() {
    let context = Context::new().unwrap();
    let mut sender = Sender::builder("drivers").device(device()).open(&context).unwrap();
    sender.set_dmabufs(true);
    sender.configure(&gray()).unwrap();
    let mut frame = sender.acquire(LONG).unwrap();
    assert!(!frame.info().native.is_null() && frame.export_vulkan().is_err());
    match frame.export_dmabuf() {
        Ok((fd, _)) => assert!(fd.as_raw_fd() >= 0),
        Err(error) => assert!(error.status() == Status::Unsupported && !error.reason().is_empty(), "{error}"),
    }
    // The default stream of CUDA; the host has no queue.
    let waited = unsafe { frame.wait_queue(std::ptr::null_mut()).and_then(|_| frame.post_queue(std::ptr::null_mut())) };
    assert_eq!(waited.map_err(|error| error.status()), if on_host() { Err(Status::Unsupported) } else { Ok(()) });
    sender.submit(frame, LONG).unwrap();
}
