// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! The side that produces frames.

use crate::context::Context;
use crate::error::{call, ns, time, Error, Result, Status};
use crate::frame::Frame;
use crate::media::Media;
use crate::{sys, Texts};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, ptr};

/// What happens to a frame for a receiver that has no room for it. Each receiver is judged alone.
///
/// ```
/// use gpudirect::{Sender, SlowReceiver};
/// let live = Sender::builder("cam1").slow_receiver(SlowReceiver::DropOldest);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowReceiver {
    /// Of a sender: `Block`; of a receiver: what its sender does.
    Default = sys::GPUD_SLOW_DEFAULT as isize,
    /// The sender waits for it.
    Block = sys::GPUD_SLOW_BLOCK as isize,
    /// It does not get this frame.
    DropNewest = sys::GPUD_SLOW_DROP_NEWEST as isize,
    /// It loses the oldest one that it has not taken.
    DropOldest = sys::GPUD_SLOW_DROP_OLDEST as isize,
}

/// What is asked of a sender's encoder: a frame that is not [`flags::DELTA`](crate::flags::DELTA).
///
/// ```
/// use gpudirect::KeyRequest;
/// let request = KeyRequest { at_once: true, ..KeyRequest::default() };
/// assert_eq!(request.time_ns, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRequest {
    /// The next frame that can be one.
    pub at_once: bool,
    /// With everything that a decoder needs to begin.
    pub all_headers: bool,
    /// And the first frame from that time on.
    pub time_ns: Option<u64>,
}

impl KeyRequest {
    pub(crate) fn to_raw(self) -> sys::gpud_key_request {
        let mut raw: sys::gpud_key_request = crate::sized();
        (raw.at_once, raw.all_headers) = (self.at_once, self.all_headers);
        raw.time_ns = self.time_ns.unwrap_or(sys::GPUD_TIME_NONE);
        raw
    }
}

crate::info! {
    /// The other end of a link, as callbacks and events have it.
    ///
    /// ```
    /// use gpudirect::{Context, Sender};
    /// # let address = format!("doc-peer-{}", std::process::id());
    /// # let address = address.as_str();
    /// let sender = Sender::builder(address)
    ///     .on_connect(|peer| println!("{} (process {}) by {}", peer.name(), peer.pid, peer.path()))
    ///     .open(&Context::new()?)?;
        /// # Ok::<(), gpudirect::Error>(())
    /// ```
    PeerInfo: gpud_peer_info { name, path, fallback_reason, host }
}

crate::info! {
    /// The state and counters of a sender.
    ///
    /// ```
    /// use gpudirect::{Context, Sender};
    /// # let address = format!("doc-sender-info-{}", std::process::id());
    /// # let address = address.as_str();
    /// let sender = Sender::builder(address).open(&Context::new()?)?;
    /// let info = sender.info();
    /// assert_eq!((info.frames, info.receivers, info.device().as_str()), (0, 0, "host"));
        /// # Ok::<(), gpudirect::Error>(())
    /// ```
    SenderInfo: gpud_sender_info { path, fallback_reason, device, device_reason }
}

crate::info! {
    /// What a sender knows of one receiver: [`SenderShared::links`].
    ///
    /// ```
    /// # fn show(sender: &gpudirect::Sender) {
    /// for link in sender.links() {
    ///     println!("{}: {} frames, {} lost", link.name(), link.delivered, link.dropped);
    /// }
    /// # }
    /// ```
    LinkInfo: gpud_link_info { name, device, path, fallback_reason, host, encrypted }
}

type Hook = Box<dyn Fn(&PeerInfo) + Send + Sync>;

#[derive(Default)]
struct Hooks {
    on_connect: Option<Hook>,
    on_disconnect: Option<Hook>,
}

unsafe extern "C" fn run_on_connect(user: *mut c_void, peer: *const sys::gpud_peer_info) {
    if let Some(hook) = &(*(user as *const Hooks)).on_connect {
        crate::or_abort(|| hook(&PeerInfo(*peer)));
    }
}

unsafe extern "C" fn run_on_disconnect(user: *mut c_void, peer: *const sys::gpud_peer_info) {
    if let Some(hook) = &(*(user as *const Hooks)).on_disconnect {
        crate::or_abort(|| hook(&PeerInfo(*peer)));
    }
}

/// How a sender is made. What is not set has its default; `gpudirect/sender.h` has the details.
///
/// ```
/// use gpudirect::{Context, Media, Sender, SlowReceiver};
/// # let address = format!("doc-sender-builder-{}", std::process::id());
/// # let address = address.as_str();
/// let sender = Sender::builder(address) // "cam1", "tcp://:7175/cam1"
///     .media(&Media::picture("RGBA", 64, 48).build()?)
///     .device("host")
///     .name("camera 1")
///     .slots(8)
///     .slow_receiver(SlowReceiver::DropOldest)
///     .open(&Context::new()?)?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct SenderBuilder {
    params: sys::gpud_sender_params,
    texts: Texts,
    modifiers: Vec<u64>,
    hooks: Hooks,
    media: Option<Media>,
}

impl SenderBuilder {
    crate::options! {
        /// Where the ring lies: "host" (default), "cuda:0", "auto"…
        device: text;
        /// Shown to the peers; default: the process's name.
        name: text;
        /// Frames in flight for each receiver.
        slots: u32;
        /// Where `slots` is not set: of pictures and tensors; default: 4.
        picture_slots: u32;
        /// The policy for receivers that ask for none.
        slow_receiver: policy;
        /// Refuses a receiver that only the staged routes can reach.
        require_direct: bool;
        /// Takes only this route: "map", "peer", "staged"…
        route: text;
        /// Who may receive: "user" (default), "group:NAME", "all".
        access: text;
        /// For an address over a network: a file with a key that both ends have.
        psk_file: text;
        /// Any host that reaches the address may receive.
        allow_unauthenticated: bool;
        /// Waits for an address that another sender has, and takes it over.
        standby: bool;
        /// Bytes of [`Stamp::large_meta`](crate::Stamp) that a frame may have; default: 65536.
        large_meta_max: u32;
        /// For "tcp://…", instead of a key: a PEM file with this end's certificate.
        tls_certificate: text;
        /// That certificate's key.
        tls_key: text;
        /// The authorities that the peers' certificates must be from.
        tls_ca: text;
        /// Does not announce the channel to other hosts.
        no_announce: bool;
    }

    /// What the frames are: [`Sender::configure`] at once.
    pub fn media(mut self, media: &Media) -> Self {
        self.media = Some(media.clone());
        self
    }

    /// DRM format modifiers of images that the application can write, on "vulkan:N".
    pub fn modifiers(mut self, modifiers: &[u64]) -> Self {
        self.modifiers = modifiers.to_vec();
        self
    }

    /// Called from a thread of the sender for each receiver that connects. It must not use the sender, and a panic in
    /// it ends the process.
    pub fn on_connect(mut self, hook: impl Fn(&PeerInfo) + Send + Sync + 'static) -> Self {
        self.hooks.on_connect = Some(Box::new(hook));
        self
    }

    /// The same for each that leaves.
    pub fn on_disconnect(mut self, hook: impl Fn(&PeerInfo) + Send + Sync + 'static) -> Self {
        self.hooks.on_disconnect = Some(Box::new(hook));
        self
    }

    /// Makes the sender, which listens at once.
    pub fn open(mut self, context: &Context) -> Result<Sender> {
        self.texts.check()?;
        let hooks = Arc::new(self.hooks);
        self.params.user = Arc::as_ptr(&hooks) as *mut c_void;
        self.params.on_connect = Some(run_on_connect);
        self.params.on_disconnect = Some(run_on_disconnect);
        self.params.modifiers = self.modifiers.as_ptr();
        self.params.modifier_count = self.modifiers.len() as u32;
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_sender_create(context.raw(), &self.params, &mut raw, error) })?;
        let shared = SenderShared { raw, context: context.clone(), _hooks: hooks };
        let mut sender = Sender { shared: Arc::new(shared) };
        if let Some(media) = &self.media {
            sender.configure(media)?;
        }
        Ok(sender)
    }
}

/// A frame that was not submitted. What can be tried again is still there.
///
/// ```
/// # use std::time::Duration;
/// use gpudirect::{Context, Media, Sender};
/// # let address = format!("doc-submit-{}", std::process::id());
/// # let address = address.as_str();
/// let media = Media::picture("GRAY8", 64, 48).build()?;
/// let mut sender = Sender::builder(address).media(&media).open(&Context::new()?)?;
/// let frame = sender.acquire(Duration::ZERO)?;
/// sender.configure(&Media::picture("GRAY8", 32, 24).build()?)?;
/// let refused = sender.submit(frame, Duration::ZERO).unwrap_err();
/// assert!(refused.frame.is_none()); // it is of another format: it never can be
/// println!("{}", refused.error);
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Debug)]
pub struct SubmitError {
    /// Why.
    pub error: Error,
    /// The frame, after `Timeout` and `Again` (and if it is of another context); else it is gone.
    pub frame: Option<Frame>,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for SubmitError {}

impl From<SubmitError> for Error {
    fn from(refused: SubmitError) -> Error {
        refused.error
    }
}

/// The side that produces frames: it listens on an address, and any number of receivers connect. Dropping it tells them
/// that it leaves, which does not end the stream: [`Sender::send_eos`] does.
///
/// ```
/// use gpudirect::{Context, Media, Sender, Stamp};
/// use std::time::Duration;
/// # let address = format!("doc-sender-{}", std::process::id());
/// # let address = address.as_str();
/// let second = Duration::from_secs(1);
/// let mut sender = Sender::builder(address).open(&Context::new()?)?;
/// sender.configure(&Media::audio("S16LE", 48000, 2, 480).build()?)?;
/// sender.send_event(1, b"take 2")?;
///
/// let mut block = sender.acquire(second)?;
/// block.set_size(400)?; // 100 samples of two channels
/// block.map_mut(second)?.fill(0);
/// block.set(&Stamp { pts_ns: Some(0), ..Stamp::default() })?;
/// sender.submit(block, second)?;
///
/// let mut block = sender.acquire(second)?;
/// block.map_mut(second)?.fill(1);
/// sender.submit_keep(&mut block, second)?; // it can still be read, and submitted again
/// sender.send_eos()?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Sender {
    shared: Arc<SenderShared>,
}

/// The part of a sender that any thread may use, also while another one submits: what [`Sender`] derefs to, and
/// [`Sender::shared`] hands out.
///
/// ```
/// use gpudirect::{Context, Media, Sender, SlowReceiver, Status};
/// use std::time::Duration;
/// # let address = format!("doc-sender-shared-{}", std::process::id());
/// # let address = address.as_str();
/// let media = Media::picture("GRAY8", 64, 48).build()?;
/// let sender = Sender::builder(address).media(&media).open(&Context::new()?)?;
/// let other = sender.shared();
/// let thread = std::thread::spawn(move || {
///     if let Some(sender) = other.upgrade() {
///         sender.interrupt(true);
///     }
/// });
/// assert_eq!(sender.wait(1, Duration::from_secs(60)).unwrap_err().status(), Status::Again);
/// thread.join().unwrap();
/// sender.interrupt(false);
/// sender.announce();
/// sender.set_slow_receiver(SlowReceiver::DropNewest)?;
/// assert!(sender.take_key_request().is_none() && sender.links().is_empty());
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct SenderShared {
    raw: *mut sys::gpud_sender,
    context: Context,
    _hooks: Arc<Hooks>, // the sender's threads use them until it is destroyed
}

crate::object! {
    Sender SenderShared SenderInfo gpud_sender, gpud_sender_get_info gpud_sender_get_fd gpud_sender_destroy
}

impl Sender {
    /// A sender at an address: "cam1", "unix:/path", "tcp://:7175/cam1", "rdma://host/cam1".
    pub fn builder(address: &str) -> SenderBuilder {
        let mut texts = Texts::default();
        let mut params: sys::gpud_sender_params = crate::sized();
        params.address = texts.add(address.as_ref());
        SenderBuilder { params, texts, modifiers: vec![], hooks: Hooks::default(), media: None }
    }

    /// Begins a new format. Frames that were lent before can only be dropped.
    pub fn configure(&mut self, media: &Media) -> Result<()> {
        call(|error| unsafe { sys::gpud_sender_configure(self.raw, &*media.0, error) })
    }

    /// From the next format on lent frames have a dma-buf, for a driver that writes into them.
    pub fn set_dmabufs(&mut self, wanted: bool) {
        unsafe { sys::gpud_sender_set_dmabufs(self.raw, wanted) }
    }

    /// Hands a frame to every receiver: a lent one, a received or captured one, or one of the application's memory.
    pub fn submit(&mut self, mut frame: Frame, timeout: Duration) -> std::result::Result<(), SubmitError> {
        let result = self.context.expect_same(&frame.context, "frame").and_then(|_| {
            call(|error| unsafe { sys::gpud_sender_submit(self.raw, &mut frame.raw, ns(timeout), error) })
        });
        result.map_err(|error| SubmitError { error, frame: (!frame.raw.is_null()).then_some(frame) })
    }

    /// The same, but the frame stays here, to be read or submitted again.
    pub fn submit_keep(&mut self, frame: &mut Frame, timeout: Duration) -> Result<()> {
        self.context.expect_same(&frame.context, "frame")?;
        call(|error| unsafe { sys::gpud_sender_submit_keep(self.raw, frame.raw, ns(timeout), error) })
    }

    /// Hands a lent picture over while it is written: its first rows are valid, and with all of them it is whole.
    /// [`Frame::rows_mut`] writes the others.
    pub fn submit_lines(&mut self, frame: &mut Frame, lines: u32, timeout: Duration) -> Result<()> {
        self.context.expect_same(&frame.context, "frame")?;
        let result =
            call(|error| unsafe { sys::gpud_sender_submit_lines(self.raw, frame.raw, lines, ns(timeout), error) });
        if !matches!(&result, Err(error) if error.status() != Status::Io) {
            frame.lines = frame.lines.max(lines);
        }
        result
    }

    /// Sends a message of the application's, in order with the frames. With the bit `sys::GPUD_EVENT_STICKY` in its
    /// kind, receivers that connect later get it, too.
    pub fn send_event(&mut self, kind: u32, data: &[u8]) -> Result<()> {
        let start = data.as_ptr() as *const c_void;
        call(|error| unsafe { sys::gpud_sender_send_event(self.raw, kind, start, data.len(), error) })
    }

    /// Ends the stream, in order with the frames.
    pub fn send_eos(&mut self) -> Result<()> {
        call(|error| unsafe { sys::gpud_sender_send_eos(self.raw, error) })
    }
}

impl SenderShared {
    /// Lends a slot to write the next frame into.
    pub fn acquire(&self, timeout: Duration) -> Result<Frame> {
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_sender_acquire(self.raw, ns(timeout), &mut raw, error) })?;
        Ok(Frame::new(raw, None, &self.context))
    }

    /// Waits until so many receivers stream.
    pub fn wait(&self, receivers: u32, timeout: Duration) -> Result<()> {
        call(|error| unsafe { sys::gpud_sender_wait(self.raw, receivers, ns(timeout), error) })
    }

    /// Hints that a frame comes within some tens of microseconds.
    pub fn announce(&self) {
        unsafe { sys::gpud_sender_announce(self.raw) }
    }

    /// The receivers that are connected.
    pub fn links(&self) -> Vec<LinkInfo> {
        let mut links = vec![crate::sized(); sys::GPUD_RECEIVERS_MAX as usize];
        let count = unsafe { sys::gpud_sender_list_links(self.raw, links.as_mut_ptr(), links.len()) };
        links.truncate(count);
        links.into_iter().map(LinkInfo).collect()
    }

    /// Whether a frame that is not [`flags::DELTA`](crate::flags::DELTA) was asked for.
    pub fn take_key_request(&self) -> Option<KeyRequest> {
        let mut raw: sys::gpud_key_request = crate::sized();
        let asked = unsafe { sys::gpud_sender_take_key_request(self.raw, &mut raw) };
        asked.then(|| KeyRequest { at_once: raw.at_once, all_headers: raw.all_headers, time_ns: time(raw.time_ns) })
    }

    /// Changes the policy for receivers that did not ask for one.
    pub fn set_slow_receiver(&self, policy: SlowReceiver) -> Result<()> {
        call(|error| unsafe { sys::gpud_sender_set_slow_receiver(self.raw, policy as _, error) })
    }

    /// Ends waits of other threads, now and until it is called with false.
    pub fn interrupt(&self, interrupted: bool) {
        unsafe { sys::gpud_sender_interrupt(self.raw, interrupted) }
    }
}
