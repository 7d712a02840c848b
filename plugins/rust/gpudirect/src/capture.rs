// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A V4L2 card as the writer of a ring.

use crate::context::{c_string, Context};
use crate::error::{call, ns, text, Result};
use crate::frame::Frame;
use crate::media::Media;
use crate::{if_there, sys, Texts};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::{c_int, c_short, c_ulong};
use std::os::unix::io::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, ptr};

/// What a control of a card's shall be set to.
///
/// ```
/// # fn set(capture: &gpudirect::Capture) -> gpudirect::Result<()> {
/// use gpudirect::Value;
/// capture.set_controls(&[("brightness", Value::Number(100)), ("exposure_auto", Value::Text("Manual Mode"))])
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, a switch, or a menu's entry by its number.
    Number(i64),
    /// A text, or a menu's entry by its name.
    Text(&'a str),
}

/// A control by the driver's name for it, or that of v4l2-ctl.
fn to_raw((name, value): (&str, Value<'_>), texts: &mut Texts) -> sys::gpud_capture_control {
    let name = texts.add(name.as_ref());
    match value {
        Value::Number(value) => sys::gpud_capture_control { name, value, text: ptr::null() },
        Value::Text(text) => sys::gpud_capture_control { name, value: 0, text: texts.add(text.as_ref()) },
    }
}

/// One format in one size, or in a range of sizes: what a card offers, and what it is set to.
///
/// ```
/// use gpudirect::Mode;
/// let mode = Mode::new("UYVY", 1920, 1080)?.rate(50, 1);
/// assert_eq!((mode.format().as_str(), mode.width_min, mode.fps_num), ("UYVY", 1920, 50));
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Mode(sys::gpud_capture_mode);

impl Mode {
    /// A format in a size; 0x0: that of the signal.
    pub fn new(format: &str, width: u32, height: u32) -> Result<Mode> {
        let mut raw: sys::gpud_capture_mode = crate::sized();
        crate::media::put(&mut raw.format, format)?;
        (raw.width_min, raw.width_max) = (width, width);
        (raw.height_min, raw.height_max) = (height, height);
        Ok(Mode(raw))
    }

    /// So many pictures in so many seconds.
    pub fn rate(mut self, pictures: u32, seconds: u32) -> Mode {
        (self.0.fps_num, self.0.fps_den) = (pictures, seconds);
        self
    }

    /// GStreamer's name of the format.
    pub fn format(&self) -> String {
        text(&self.0.format)
    }
}

impl Deref for Mode {
    type Target = sys::gpud_capture_mode;

    fn deref(&self) -> &sys::gpud_capture_mode {
        &self.0
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (format, fps, per) = (self.format(), self.fps_num, self.fps_den);
        write!(f, "{format} {}x{} {fps}/{per}", self.width_min, self.height_min)
    }
}

crate::info! {
    /// The state and counters of a capture.
    ///
    /// ```
    /// # fn show(capture: &gpudirect::Capture) {
    /// let info = capture.info();
    /// println!("{} ({}): {} frames, signal: {}", info.card(), info.path(), info.frames, info.signal);
    /// # }
    /// ```
    CaptureInfo: gpud_capture_info {
        path, fallback_reason, driver, card, device, device_reason, signal_reason, input,
        card_format
    }
}

/// How a capture is made. What is not set has its default; `gpudirect/capture.h` has the details.
///
/// ```no_run
/// use gpudirect::{Capture, Context, Value};
/// let capture = Capture::builder("v4l2:///dev/video0")
///     .device("cuda:0")
///     .input("HDMI")
///     .control("gain", Value::Number(3))
///     .open(&Context::new()?)?;
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct CaptureBuilder {
    params: sys::gpud_capture_params,
    texts: Texts,
    controls: Vec<sys::gpud_capture_control>,
}

impl CaptureBuilder {
    crate::options! {
        /// Where the frames shall arrive: "host" (default), "cuda:0", "auto"…
        device: text;
        /// The driver's buffers; default: 4.
        slots: u32;
        /// How they are used: "dmabuf", "userptr", "mmap"; default: the best that works.
        method: text;
        /// Fails rather than copies each frame to the device.
        require_direct: bool;
        /// The number or name of an input.
        input: text;
    }

    /// Sets a control, by the driver's name for it or that of v4l2-ctl; in the order of calls.
    pub fn control(mut self, name: &str, value: Value<'_>) -> Self {
        self.controls.push(to_raw((name, value), &mut self.texts));
        self
    }

    /// Opens the card. Nothing is captured before [`Capture::configure`].
    pub fn open(mut self, context: &Context) -> Result<Capture> {
        self.texts.check()?;
        self.params.controls = self.controls.as_ptr();
        self.params.control_count = self.controls.len() as u32;
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_capture_create(context.raw(), &self.params, &mut raw, error) })?;
        let shared = Arc::new(CaptureShared { raw, context: context.clone() });
        Ok(Capture { shared, media: None, one_thread: PhantomData })
    }
}

/// A V4L2 card as the writer of a ring.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use gpudirect::{Capture, Context, Mode, Sender};
/// use std::time::Duration;
/// let second = Duration::from_secs(1);
/// let context = Context::new()?;
/// let mut capture = Capture::builder("v4l2:///dev/video0").open(&context)?;
/// println!("{:?}", capture.modes(None));
/// capture.configure(&Mode::new("UYVY", 1920, 1080)?)?;
/// let mut sender = Sender::builder("cam1").media(&capture.media()).open(&context)?;
/// loop {
///     sender.submit(capture.acquire(second)?, second)?;
/// }
/// # }
/// ```
pub struct Capture {
    shared: Arc<CaptureShared>,
    media: Option<(u32, Arc<Media>)>,  // of the epoch
    one_thread: PhantomData<Cell<()>>, // at a time: of this object alone get_fd wants that, too
}

/// The part of a capture that any thread may use, also while another one acquires: what [`Capture`] derefs to, and
/// [`Capture::shared`] hands out.
///
/// ```
/// # fn stop(other: std::sync::Weak<gpudirect::CaptureShared>) {
/// if let Some(capture) = other.upgrade() {
///     capture.interrupt(true);
/// }
/// # }
/// ```
pub struct CaptureShared {
    raw: *mut sys::gpud_capture,
    context: Context,
}

/// C's descriptor of a capture is level-triggered. Loops that hear of changes alone, as those of tokio and mio, wake up
/// again only once it was not readable.
fn is_readable(fd: RawFd) -> bool {
    #[repr(C)]
    struct PollFd {
        fd: RawFd,
        events: c_short,
        revents: c_short,
    }
    extern "C" {
        fn poll(fds: *mut PollFd, count: c_ulong, timeout_ms: c_int) -> c_int;
    }
    const POLLIN: c_short = 1;
    let mut one = PollFd { fd, events: POLLIN, revents: 0 };
    unsafe { poll(&mut one, 1, 0) == 1 }
}

crate::object! {
    Capture CaptureShared CaptureInfo gpud_capture, gpud_capture_get_info gpud_capture_get_fd gpud_capture_destroy
}

impl Capture {
    /// A capture of a card: "v4l2:///dev/video0".
    pub fn builder(address: &str) -> CaptureBuilder {
        let mut texts = Texts::default();
        let mut params: sys::gpud_capture_params = crate::sized();
        params.address = texts.add(address.as_ref());
        CaptureBuilder { params, texts, controls: vec![] }
    }

    /// Starts capturing in a mode, which the driver may round: [`CaptureShared::media`] has it.
    pub fn configure(&mut self, mode: &Mode) -> Result<()> {
        let mut config: sys::gpud_capture_config = crate::sized();
        config.mode = &mode.0;
        call(|error| unsafe { sys::gpud_capture_configure(self.raw, &config, error) })
    }

    /// Changes to another input, by its number or name.
    pub fn set_input(&mut self, input: &str) -> Result<()> {
        let input = c_string(input)?;
        let mut config: sys::gpud_capture_config = crate::sized();
        config.input = input.as_ptr();
        call(|error| unsafe { sys::gpud_capture_configure(self.raw, &config, error) })
    }

    /// Stops capturing; held frames live on.
    pub fn stop(&mut self) {
        unsafe { sys::gpud_capture_stop(self.raw) }
    }

    /// Takes the next frame.
    pub fn acquire(&mut self, timeout: Duration) -> Result<Frame> {
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_capture_acquire(self.raw, ns(timeout), &mut raw, error) })?;
        let mut frame = Frame::new(raw, None, &self.context);
        let epoch = frame.info().epoch;
        let media = match self.media.take() {
            Some((of, media)) if of == epoch => media,
            _ => Arc::new(self.shared.media()),
        };
        frame.media = Some(media.clone());
        self.media = Some((epoch, media));
        Ok(frame)
    }

    /// The next frame if it is there: for event loops, until it gives `None`.
    pub fn try_acquire(&mut self) -> Result<Option<Frame>> {
        let fd = self.fd()?.as_raw_fd();
        loop {
            match if_there(self.acquire(Duration::ZERO))? {
                None if is_readable(fd) => {}
                found => return Ok(found),
            }
        }
    }

    /// Waits for an unplugged card to come back, after [`Status::NoDevice`](crate::Status).
    pub fn wait(&mut self, timeout: Duration) -> Result<()> {
        call(|error| unsafe { sys::gpud_capture_wait(self.raw, ns(timeout), error) })
    }
}

impl CaptureShared {
    /// The modes that the card offers now, of one format or of all.
    pub fn modes(&self, format: Option<&str>) -> Result<Vec<Mode>> {
        let format = format.map(c_string).transpose()?;
        let format = format.as_ref().map_or(ptr::null(), |format| format.as_ptr());
        let mut modes: Vec<sys::gpud_capture_mode> = vec![crate::sized(); 64];
        loop {
            let room = modes.len();
            let count = unsafe { sys::gpud_capture_list_modes(self.raw, format, modes.as_mut_ptr(), room) };
            if count <= room {
                modes.truncate(count);
                return Ok(modes.into_iter().map(Mode).collect());
            }
            modes.resize(count, crate::sized());
        }
    }

    /// Sets controls, in this order.
    pub fn set_controls(&self, controls: &[(&str, Value<'_>)]) -> Result<()> {
        let mut texts = Texts::default();
        let controls: Vec<_> = controls.iter().map(|&one| to_raw(one, &mut texts)).collect();
        texts.check()?;
        let mut config: sys::gpud_capture_config = crate::sized();
        (config.controls, config.control_count) = (controls.as_ptr(), controls.len() as u32);
        call(|error| unsafe { sys::gpud_capture_configure(self.raw, &config, error) })
    }

    /// What the frames are from now on.
    pub fn media(&self) -> Media {
        unsafe { Media::from_raw(&self.info().media) }
    }

    /// Ends waits of other threads, now and until it is called with false.
    pub fn interrupt(&self, interrupted: bool) {
        unsafe { sys::gpud_capture_interrupt(self.raw, interrupted) }
    }
}
