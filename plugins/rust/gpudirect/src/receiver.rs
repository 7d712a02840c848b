// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The side that consumes frames.

use crate::context::{c_string, Context, Memory};
use crate::error::{call, ns, string, text, Error, Result, Status};
use crate::frame::Frame;
use crate::media::{Layout, Media};
use crate::sender::{KeyRequest, PeerInfo};
use crate::{if_there, sys, Texts};
use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{ptr, slice};

/// What a receiver or a group tells beside frames, in order with them: [`ReceiverBuilder::on_event`],
/// [`GroupBuilder::on_event`](crate::GroupBuilder::on_event).
///
/// ```
/// use gpudirect::{Event, Receiver};
/// let builder = Receiver::builder("cam1").on_event(|event| match event {
///     Event::Connected(peer) => println!("by {}", peer.path()),
///     Event::Format { media, .. } => println!("frames are {media}"),
///     Event::User { kind, data } => println!("message {kind}: {} bytes", data.len()),
///     _ => {}
/// });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// There is a connection.
    Connected(&'a PeerInfo),
    /// The frames that follow are of another format, or connection.
    Format {
        /// Of these frames.
        epoch: u32,
        /// What they are.
        media: &'a Media,
        /// Where the sender has them, as it calls it: "cuda:0".
        device: String,
        /// That device's address on the bus of its host; empty: not known.
        pci: String,
    },
    /// A message of [`Sender::send_event`](crate::Sender::send_event).
    User {
        /// Its kind.
        kind: u32,
        /// Its data.
        data: &'a [u8],
    },
    /// Of a group that changed to another member: a sticky message which that one has sent before.
    Repeated {
        /// Its kind.
        kind: u32,
        /// Its data.
        data: &'a [u8],
    },
    /// A [`ReceiverShared::switch`] is over.
    Switched {
        /// Where to.
        address: String,
        /// Or why the old sender goes on.
        result: Result<()>,
    },
}

impl Event<'_> {
    /// Hands on what C tells, and remembers what the frames are from there on.
    pub(crate) unsafe fn hand_on(
        event: sys::gpud_event,
        data: *const c_void,
        media: &mut Option<Arc<Media>>,
        mut to: impl FnMut(Event<'_>),
    ) {
        match event {
            sys::GPUD_EVENT_CONNECTED => to(Event::Connected(&PeerInfo(*(data as *const sys::gpud_peer_info)))),
            sys::GPUD_EVENT_FORMAT => {
                let format = &*(data as *const sys::gpud_format_event);
                let now = Arc::new(Media::from_raw(&format.media));
                *media = Some(now.clone());
                let (device, pci) = (text(&format.device), text(&format.pci));
                to(Event::Format { epoch: format.epoch, media: &now, device, pci });
            }
            sys::GPUD_EVENT_USER | sys::GPUD_EVENT_REPEATED => {
                let user = &*(data as *const sys::gpud_user_event);
                let data = match user.size {
                    0 => &[],
                    size => slice::from_raw_parts(user.data as *const u8, size),
                };
                to(match event {
                    sys::GPUD_EVENT_USER => Event::User { kind: user.kind, data },
                    _ => Event::Repeated { kind: user.kind, data },
                });
            }
            sys::GPUD_EVENT_SWITCHED => {
                let over = &*(data as *const sys::gpud_switch_event);
                let result = match over.status {
                    sys::GPUD_OK => Ok(()),
                    status => Err(Error::new(Status::from_raw(status), string(over.reason))),
                };
                to(Event::Switched { address: string(over.address), result });
            }
            _ => {} // of a newer library
        }
    }
}

type OnEvent = Box<dyn FnMut(Event<'_>) + Send>;
type Alloc = Box<dyn FnMut(&Layout, u32) -> Result<Memory> + Send>;

/// What C calls inside of acquire, and what that leaves for its return.
struct Callbacks {
    context: Context,
    on_event: Option<OnEvent>,
    alloc: Option<Alloc>,
    media: Option<Arc<Media>>,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn run_on_event(user: *mut c_void, event: sys::gpud_event, data: *const c_void) {
    let callbacks = &mut *(user as *mut Callbacks);
    let (media, on_event) = (&mut callbacks.media, &mut callbacks.on_event);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Event::hand_on(event, data, media, |event| {
            if let Some(on_event) = on_event {
                on_event(event)
            }
        })
    }));
    callbacks.panic = callbacks.panic.take().or(caught.err());
}

unsafe extern "C" fn run_alloc(
    user: *mut c_void,
    layout: *const sys::gpud_layout,
    slot: u32,
    memory: *mut *mut sys::gpud_memory,
    error: *mut sys::gpud_error,
) -> sys::gpud_status {
    let callbacks = &mut *(user as *mut Callbacks);
    let (context, alloc) = (&callbacks.context, &mut callbacks.alloc);
    let made = catch_unwind(AssertUnwindSafe(|| match alloc {
        Some(alloc) => alloc(&Layout(*layout), slot),
        None => Err(Error::new(Status::Invalid, "there is no function that allocates")),
    }));
    let made = made.unwrap_or_else(|panic| {
        callbacks.panic = callbacks.panic.take().or(Some(panic));
        Err(Error::new(Status::Invalid, "the function that allocates panicked"))
    });
    match made.and_then(|made| context.expect_same(&made.context, "memory").map(|_| made)) {
        Ok(made) => {
            *memory = made.into_raw();
            sys::GPUD_OK
        }
        Err(failed) => failed.write(error),
    }
}

crate::info! {
    /// The state and counters of a receiver.
    ///
    /// ```
    /// use gpudirect::{Context, Receiver};
    /// let receiver = Receiver::builder("cam1").open(&Context::new()?)?;
    /// let info = receiver.info();
    /// assert_eq!((info.connected, info.frames, info.path().as_str()), (false, 0, "none"));
        /// # Ok::<(), gpudirect::Error>(())
    /// ```
    ReceiverInfo: gpud_receiver_info {
        path, fallback_reason, device, device_reason, whole_reason, encrypted, address
    }
}

/// How a receiver is made. What is not set has its default; `gpudirect/receiver.h` has the details.
///
/// ```
/// use gpudirect::{Context, Memory, Receiver, SlowReceiver};
/// let context = Context::new()?;
/// let host = context.device("host")?;
/// let receiver = Receiver::builder("cam1")
///     .device("host")
///     .slots(6)
///     .slow_receiver(SlowReceiver::DropOldest)
///     .alloc(move |layout, _slot| Memory::alloc(&host, layout.size)) // in memory of its own
///     .open(&context)?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct ReceiverBuilder {
    params: sys::gpud_receiver_params,
    texts: Texts,
    modifiers: Vec<u64>,
    on_event: Option<OnEvent>,
    alloc: Option<Alloc>,
}

impl ReceiverBuilder {
    crate::options! {
        /// Where the frames shall arrive: "host" (default), "cuda:0", "auto"…
        device: text;
        /// Shown to the sender; default: the process's name.
        name: text;
        /// Frames that may be in flight or held at once.
        slots: u32;
        /// Where `slots` is not set, in memory of its own: of pictures and tensors; default: 4.
        picture_slots: u32;
        /// What happens when this receiver is slow.
        slow_receiver: policy;
        /// Refuses the staged routes.
        require_direct: bool;
        /// Takes only this route: "map", "peer", "staged"…
        route: text;
        /// Whose senders are admitted: "user" (default), "group:NAME", "all".
        access: text;
        /// For an address over a network: a file with the sender's key.
        psk_file: text;
        /// How long a wait looks for a frame that is due before it sleeps; default: 250 µs.
        busy_poll_ns: i64;
        /// Takes pictures that are still being written: [`Frame::rows`](crate::Frame::rows).
        by_lines: bool;
        /// Bytes of the largest frame that is taken.
        max_frame_size: u64;
        /// For "tcp://…", instead of a key: a PEM file with this end's certificate.
        tls_certificate: text;
        /// That certificate's key.
        tls_key: text;
        /// The authorities that the sender's certificate must be from.
        tls_ca: text;
    }

    /// DRM format modifiers of images that the application can read, on "vulkan:N".
    pub fn modifiers(mut self, modifiers: &[u64]) -> Self {
        self.modifiers = modifiers.to_vec();
        self
    }

    /// Called inside of [`Receiver::acquire`], which hands on a panic in it.
    pub fn on_event(mut self, function: impl FnMut(Event<'_>) + Send + 'static) -> Self {
        self.on_event = Some(Box::new(function));
        self
    }

    /// Frames come in memory of the application's, at the price of a copy: called inside of [`Receiver::acquire`] for
    /// each slot of a format.
    pub fn alloc(mut self, function: impl FnMut(&Layout, u32) -> Result<Memory> + Send + 'static) -> Self {
        self.alloc = Some(Box::new(function));
        self
    }

    /// Makes the receiver, which connects when it acquires.
    pub fn open(mut self, context: &Context) -> Result<Receiver> {
        self.texts.check()?;
        self.params.on_event = Some(run_on_event);
        if self.alloc.is_some() {
            self.params.alloc = Some(run_alloc);
        }
        self.params.modifiers = self.modifiers.as_ptr();
        self.params.modifier_count = self.modifiers.len() as u32;
        let callbacks = Arc::new(UnsafeCell::new(Callbacks {
            context: context.clone(),
            on_event: self.on_event,
            alloc: self.alloc,
            media: None,
            panic: None,
        }));
        self.params.user = callbacks.get() as *mut c_void;
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_receiver_create(context.raw(), &self.params, &mut raw, error) })?;
        let shared = ReceiverShared { raw, context: context.clone(), callbacks, ending: Mutex::new(()) };
        Ok(Receiver { shared: Arc::new(shared) })
    }
}

/// The side that consumes frames: it connects to a sender's address, in either start order, and again after the sender
/// went away.
///
/// ```no_run
/// use gpudirect::{Context, Receiver, Status};
/// use std::time::Duration;
/// let mut receiver = Receiver::builder("cam1").open(&Context::new()?)?;
/// loop {
///     match receiver.acquire(Duration::from_secs(1)) {
///         Ok(mut frame) => println!("{:?}: {}", frame.media(), frame.map(Duration::from_secs(1))?[0]),
///         Err(error) => match error.status() {
///             Status::Timeout | Status::Peer => eprintln!("{error}"), // the next call connects again
///             Status::Closed => break,                                // the end of the stream
///             _ => return Err(error),
///         },
///     }
/// }
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Receiver {
    pub(crate) shared: Arc<ReceiverShared>,
}

/// The part of a receiver that any thread may use, also while another one acquires: what [`Receiver`] derefs to, and
/// [`Receiver::shared`] hands out.
///
/// ```
/// use gpudirect::{Context, KeyRequest, Receiver, Status};
/// use std::time::Duration;
/// let mut receiver = Receiver::builder("cam1").open(&Context::new()?)?;
/// let other = receiver.shared();
/// let thread = std::thread::spawn(move || {
///     if let Some(receiver) = other.upgrade() {
///         receiver.interrupt(true);
///     }
/// });
/// assert_eq!(receiver.acquire(Duration::from_secs(60)).unwrap_err().status(), Status::Again);
/// thread.join().unwrap();
/// receiver.interrupt(false);
/// receiver.set_slots(8);
/// receiver.request_key(&KeyRequest { at_once: true, ..KeyRequest::default() });
/// receiver.switch("cam2", Duration::from_secs(3))?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct ReceiverShared {
    pub(crate) raw: *mut sys::gpud_receiver,
    pub(crate) context: Context,
    callbacks: Arc<UnsafeCell<Callbacks>>, // for the thread that acquires
    /// Held by interrupts, and while a group that the receiver is in ends.
    pub(crate) ending: Mutex<()>,
}

crate::object! {
    Receiver ReceiverShared ReceiverInfo gpud_receiver,
    gpud_receiver_get_info gpud_receiver_get_fd gpud_receiver_destroy
}

impl Receiver {
    /// A receiver of the sender at an address.
    pub fn builder(address: &str) -> ReceiverBuilder {
        let mut texts = Texts::default();
        let mut params: sys::gpud_receiver_params = crate::sized();
        params.address = texts.add(address.as_ref());
        ReceiverBuilder { params, texts, modifiers: vec![], on_event: None, alloc: None }
    }

    /// Takes the next frame, and connects first where needed.
    pub fn acquire(&mut self, timeout: Duration) -> Result<Frame> {
        let mut raw = ptr::null_mut();
        let result = call(|error| unsafe { sys::gpud_receiver_acquire(self.raw, ns(timeout), &mut raw, error) });
        // No callback runs but inside of that call.
        let callbacks = unsafe { &mut *self.callbacks.get() };
        let frame = result.map(|_| Frame::new(raw, callbacks.media.clone(), &self.context));
        if let Some(panic) = callbacks.panic.take() {
            drop(frame);
            resume_unwind(panic);
        }
        frame
    }

    /// The next frame if it is there: for event loops, until it gives `None`.
    pub fn try_acquire(&mut self) -> Result<Option<Frame>> {
        if_there(self.acquire(Duration::ZERO))
    }

    /// What the frames are, which a group of this receiver's is told instead.
    pub(crate) fn media(&mut self) -> &mut Option<Arc<Media>> {
        unsafe { &mut (*self.callbacks.get()).media }
    }

    /// How many frames of the same format wait to be acquired.
    pub fn count_frames(&mut self) -> u32 {
        unsafe { sys::gpud_receiver_count_frames(self.raw) }
    }

    /// Tells the sender how long the last frame took, by a clock that both hosts follow.
    pub fn set_latency(&mut self, latency_ns: u64) {
        unsafe { sys::gpud_receiver_set_latency(self.raw, latency_ns) }
    }
}

impl ReceiverShared {
    /// Asks for more frames that may be in flight or held at once.
    pub fn set_slots(&self, slots: u32) {
        unsafe { sys::gpud_receiver_set_slots(self.raw, slots) }
    }

    /// Asks the sender for a frame that is not [`flags::DELTA`](crate::flags::DELTA).
    pub fn request_key(&self, request: &KeyRequest) {
        unsafe { sys::gpud_receiver_request_key(self.raw, &request.to_raw()) }
    }

    /// Changes to another sender while frames flow; if it does not come in time (zero: there is no limit) the old one
    /// goes on. [`Event::Switched`] tells.
    pub fn switch(&self, address: &str, timeout: Duration) -> Result<()> {
        let address = c_string(address)?;
        let mut params: sys::gpud_switch_params = crate::sized();
        (params.address, params.timeout_ns) = (address.as_ptr(), ns(timeout));
        call(|error| unsafe { sys::gpud_receiver_switch(self.raw, &params, error) })
    }

    /// Ends waits of other threads, now and until it is called with false.
    pub fn interrupt(&self, interrupted: bool) {
        let _ending = self.ending.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        unsafe { sys::gpud_receiver_interrupt(self.raw, interrupted) }
    }
}
