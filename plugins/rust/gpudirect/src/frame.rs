// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! A frame, what is known of it, and its bytes.

use crate::context::{Context, Device, Memory};
use crate::error::{call, ns, text, time, Error, Result, Status};
use crate::media::{Layout, Media};
use crate::sys;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::io::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, ptr, slice};

/// Flags of [`Stamp::flags`]; those of `gpud_frame_flags`.
///
/// ```
/// use gpudirect::flags;
/// let mine = flags::USER << 3; // from USER up the bits are the application's
/// assert_eq!(mine & flags::CORRUPTED, 0);
/// ```
pub mod flags {
    use crate::sys;

    /// The content may be wrong: an error of the card, a writer that died.
    pub const CORRUPTED: u32 = sys::GPUD_FRAME_CORRUPTED;
    /// Frames are missing before this one, or a new sender took over.
    pub const DISCONTINUITY: u32 = sys::GPUD_FRAME_DISCONTINUITY;
    /// Shared with others: mapping it for writing is refused.
    pub const READ_ONLY: u32 = sys::GPUD_FRAME_READ_ONLY;
    /// The picture was made of two fields.
    pub const INTERLACED: u32 = sys::GPUD_FRAME_INTERLACED;
    /// Of two fields, the top one came first.
    pub const TOP_FIRST: u32 = sys::GPUD_FRAME_TOP_FIRST;
    /// The frame is the top field alone.
    pub const TOP_FIELD: u32 = sys::GPUD_FRAME_TOP_FIELD;
    /// The frame is the bottom field alone.
    pub const BOTTOM_FIELD: u32 = sys::GPUD_FRAME_BOTTOM_FIELD;
    /// Of no use without the frames before it, as a codec's picture that is not a key frame.
    pub const DELTA: u32 = sys::GPUD_FRAME_DELTA;
    /// From this bit up the bits are the application's.
    pub const USER: u32 = sys::GPUD_FRAME_USER;
}

/// What a sender says of a frame: times, flags, and data of its own that travel with it.
///
/// ```
/// use gpudirect::Stamp;
/// let stamp = Stamp { pts_ns: Some(40_000_000), meta: b"shot 7", ..Stamp::default() };
/// assert_eq!(stamp.dts_ns, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp<'a> {
    /// Presentation time on the application's time line.
    pub pts_ns: Option<u64>,
    /// Decoding time.
    pub dts_ns: Option<u64>,
    /// Duration.
    pub duration_ns: Option<u64>,
    /// The application's frame number.
    pub offset: Option<u64>,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Data of the application's, at most 704 bytes.
    pub meta: &'a [u8],
    /// More of it: at most what [`SenderBuilder::large_meta_max`](crate::SenderBuilder) allows.
    pub large_meta: &'a [u8],
}

/// What is known of a frame. It derefs to its fields in C: `sequence`, `dropped`, `epoch`, `bytes`; `native` and
/// `memory_offset`, which are the address of a frame on the host and on a GPU of CUDA or HIP.
///
/// ```
/// use gpudirect::{Context, Frame, Layout};
/// let layout = Layout::new("GRAY8", 16, 2)?;
/// let frame = Frame::from_vec(&Context::new()?.device("host")?, vec![0; 32], &layout)?;
/// let info = frame.info();
/// assert_eq!((info.bytes, info.device().as_str(), info.slot(), info.submitted_ns()), (32, "host", None, None));
/// assert_eq!((info.layout().width, info.stamp().pts_ns, info.sequence), (16, None, 0));
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct FrameInfo<'a> {
    raw: sys::gpud_frame_info,
    frame: PhantomData<&'a Frame>,
}

impl FrameInfo<'_> {
    /// What C gives to a function of a group's: a library of an older release has a shorter one.
    pub(crate) unsafe fn read<'a>(raw: *const sys::gpud_frame_info) -> FrameInfo<'a> {
        let mut info: sys::gpud_frame_info = crate::sized();
        let size = (*raw).size.min(std::mem::size_of_val(&info));
        ptr::copy_nonoverlapping(raw as *const MaybeUninit<u8>, &mut info as *mut _ as *mut MaybeUninit<u8>, size);
        FrameInfo { raw: info, frame: PhantomData }
    }

    /// When it was submitted, by CLOCK_MONOTONIC of this host; `None`: by a sender with another.
    pub fn submitted_ns(&self) -> Option<u64> {
        (self.raw.submitted_ns != 0).then_some(self.raw.submitted_ns)
    }

    /// For caches: the same number for all frames of an epoch that lie at one place; `None`: the application's own
    /// memory.
    pub fn slot(&self) -> Option<u32> {
        (self.raw.slot != u32::MAX).then_some(self.raw.slot)
    }

    /// How the frame lies.
    pub fn layout(&self) -> Layout {
        Layout(self.raw.layout)
    }

    /// The device that its memory is on.
    pub fn device(&self) -> String {
        let mut info: sys::gpud_device_info = crate::sized();
        unsafe { sys::gpud_device_get_info(self.raw.device, &mut info) };
        text(&info.name)
    }

    /// What its sender said of it.
    pub fn stamp(&self) -> Stamp<'_> {
        let raw = &self.raw;
        Stamp {
            pts_ns: time(raw.pts_ns),
            dts_ns: time(raw.dts_ns),
            duration_ns: time(raw.duration_ns),
            offset: time(raw.offset),
            flags: raw.flags,
            meta: &raw.meta[..(raw.meta_size as usize).min(raw.meta.len())],
            large_meta: unsafe { bytes(raw.large_meta as *const u8, raw.large_meta_size) },
        }
    }
}

impl Deref for FrameInfo<'_> {
    type Target = sys::gpud_frame_info;

    fn deref(&self) -> &sys::gpud_frame_info {
        &self.raw
    }
}

impl fmt::Debug for FrameInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("FrameInfo");
        all.field("sequence", &self.raw.sequence).field("layout", &self.layout());
        all.field("stamp", &self.stamp()).finish_non_exhaustive()
    }
}

unsafe fn bytes<'a>(start: *const u8, size: usize) -> &'a [u8] {
    match size {
        0 => &[],
        _ => slice::from_raw_parts(start, size),
    }
}

/// A frame: lent by a sender, received, captured, or made of the application's own memory. It is given back when it is
/// dropped, and [`Sender::submit`](crate::Sender::submit) consumes it.
///
/// Any thread may use it, one at a time. It may outlive what it came from. The bytes of a received frame lie in memory
/// that its sender could still write; a sender that keeps the rules does not.
///
/// ```
/// use gpudirect::{Context, Frame, Layout, Stamp};
/// use std::time::Duration;
/// let second = Duration::from_secs(1);
/// let layout = Layout::new("GRAY8", 16, 2)?;
/// let mut frame = Frame::from_vec(&Context::new()?.device("host")?, vec![1; 32], &layout)?;
/// assert_eq!(frame.map(second)?[31], 1);
/// frame.map_mut(second)?.fill(2);
/// frame.map_update(second)?[0] += 1;
/// assert_eq!(frame.rows(0, 1, second)?, [3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
/// frame.set(&Stamp { pts_ns: Some(7), meta: b"mine", ..Stamp::default() })?;
/// assert_eq!(frame.info().stamp().meta, b"mine");
/// assert!(frame.set_size(1).is_err()); // a picture has all its bytes in use
/// assert!(frame.media().is_none()); // a received frame has one
/// # Ok::<(), gpudirect::Error>(())
/// ```
pub struct Frame {
    pub(crate) raw: *mut sys::gpud_frame, // NULL: consumed
    pub(crate) lines: u32,                // of a picture that is submitted by lines: those that the receivers have
    pub(crate) media: Option<Arc<Media>>,
    pub(crate) context: Context,
}

// frame.h: any thread, one at a time; and reading what is known of it, which is all that &Frame
// can do, from several at once.
unsafe impl Send for Frame {}
unsafe impl Sync for Frame {}

impl Frame {
    pub(crate) fn new(raw: *mut sys::gpud_frame, media: Option<Arc<Media>>, context: &Context) -> Frame {
        Frame { raw, lines: 0, media, context: context.clone() }
    }

    /// A frame of the application's own memory, to be submitted: that costs a copy.
    pub fn wrap(memory: Memory, offset: u64, layout: &Layout) -> Result<Frame> {
        let mut raw = ptr::null_mut();
        call(|error| unsafe { sys::gpud_frame_wrap(memory.raw(), offset, &layout.0, &mut raw, error) })?;
        Ok(Frame::new(raw, None, &memory.context))
    }

    /// The same of bytes on the host.
    pub fn from_vec(host: &Device, bytes: Vec<u8>, layout: &Layout) -> Result<Frame> {
        Frame::wrap(Memory::from_vec(host, bytes)?, 0, layout)
    }

    /// What is known of it.
    pub fn info(&self) -> FrameInfo<'_> {
        let mut raw = crate::sized();
        unsafe { sys::gpud_frame_get_info(self.raw, &mut raw) };
        FrameInfo { raw, frame: PhantomData }
    }

    /// What the frames of a received or captured stream are.
    pub fn media(&self) -> Option<Arc<Media>> {
        self.media.clone()
    }

    /// Sets times, flags and data, before the frame is submitted.
    pub fn set(&mut self, stamp: &Stamp<'_>) -> Result<()> {
        const MOST: usize = sys::GPUD_FRAME_META_MAX as usize;
        if stamp.meta.len() > MOST {
            let size = stamp.meta.len();
            let reason = format!("{size} bytes of meta: {MOST} are the most; large_meta takes more");
            return Err(Error::new(Status::Invalid, reason));
        }
        let mut raw: sys::gpud_frame_info = crate::sized();
        raw.pts_ns = stamp.pts_ns.unwrap_or(sys::GPUD_TIME_NONE);
        raw.dts_ns = stamp.dts_ns.unwrap_or(sys::GPUD_TIME_NONE);
        raw.duration_ns = stamp.duration_ns.unwrap_or(sys::GPUD_TIME_NONE);
        raw.offset = stamp.offset.unwrap_or(u64::MAX);
        raw.flags = stamp.flags;
        raw.meta[..stamp.meta.len()].copy_from_slice(stamp.meta);
        raw.meta_size = stamp.meta.len() as u32;
        raw.large_meta = stamp.large_meta.as_ptr() as *const c_void;
        raw.large_meta_size = stamp.large_meta.len();
        call(|error| unsafe { sys::gpud_frame_set_info(self.raw, &raw, error) })
    }

    /// Sets how many bytes of a block of sound, of data or of tensors are in use.
    pub fn set_size(&mut self, bytes: u64) -> Result<()> {
        call(|error| unsafe { sys::gpud_frame_set_size(self.raw, bytes, error) })
    }

    fn map_for(&mut self, access: u32, timeout: Duration) -> Result<(*mut u8, usize)> {
        if self.lines != 0 && access & sys::GPUD_WRITE != 0 {
            let reason = "the receivers read its first rows: write the others by rows_mut()";
            return Err(Error::new(Status::Invalid, reason));
        }
        self.map_any(access, timeout)
    }

    fn map_any(&mut self, access: u32, timeout: Duration) -> Result<(*mut u8, usize)> {
        let mut data = ptr::null_mut();
        call(|error| unsafe { sys::gpud_frame_map(self.raw, access, ns(timeout), &mut data, error) })?;
        Ok((data as *mut u8, self.info().bytes as usize))
    }

    /// Its bytes, to read, once the device has written them. Free on the host, else a copy.
    pub fn map(&mut self, timeout: Duration) -> Result<Map<'_>> {
        let (data, size) = self.map_for(sys::GPUD_READ, timeout)?;
        Ok(Map { data, size, frame: self })
    }

    /// Its bytes, to write all of them: what they were is not there.
    pub fn map_mut(&mut self, timeout: Duration) -> Result<MapMut<'_>> {
        let (data, size) = self.map_for(sys::GPUD_WRITE, timeout)?;
        Ok(MapMut(Map { data, size, frame: self }))
    }

    /// Its bytes, to change some of them.
    pub fn map_update(&mut self, timeout: Duration) -> Result<MapMut<'_>> {
        let (data, size) = self.map_for(sys::GPUD_READ | sys::GPUD_WRITE, timeout)?;
        Ok(MapMut(Map { data, size, frame: self }))
    }

    /// Waits until the first rows of a picture are valid, which its sender may still write.
    pub fn wait_lines(&mut self, lines: u32, timeout: Duration) -> Result<()> {
        call(|error| unsafe { sys::gpud_frame_wait_lines(self.raw, lines, ns(timeout), error) })
    }

    /// A plane of a picture whose rows the CPU can use one by one.
    fn plane(&self, plane: usize) -> Result<Rows> {
        let (layout, device) = (self.info().layout(), self.info().device());
        let rows = |plane: &sys::gpud_plane| Rows { plane: *plane, height: layout.height.max(1) };
        let all: Vec<Rows> = layout.planes().iter().map(rows).collect();
        let apart = |a: &Rows, b: &Rows| a.place(0..a.plane.rows).end <= b.place(0..b.plane.rows).start;
        let why = match all.get(plane) {
            None => format!("the picture has no plane {plane}"),
            Some(_) if device != "host" => format!("the rows are on {device}: use wait_lines() and a queue of it"),
            Some(_) if layout.modifier != 0 => "the picture does not lie row by row".to_string(),
            Some(_) if !all.windows(2).all(|two| apart(&two[0], &two[1])) => "its planes are not apart".to_string(),
            Some(&found) => return Ok(found),
        };
        Err(Error::new(Status::Unsupported, why))
    }

    /// The part of a plane that is valid with the first rows of a picture on the host, which its sender may still
    /// write: [`ReceiverBuilder::by_lines`](crate::ReceiverBuilder).
    pub fn rows(&mut self, plane: usize, lines: u32, timeout: Duration) -> Result<&[u8]> {
        let plane = self.plane(plane)?;
        self.wait_lines(lines, timeout)?;
        let (info, place) = (self.info(), plane.place(0..plane.of(lines)));
        let data = unsafe { (info.native as *const u8).add(info.memory_offset as usize + place.start) };
        Ok(unsafe { bytes(data, place.len()) })
    }

    /// The part of a plane that is not the receivers' yet, of a picture on the host that
    /// [`Sender::submit_lines`](crate::Sender::submit_lines) hands over.
    pub fn rows_mut(&mut self, plane: usize, timeout: Duration) -> Result<MapMut<'_>> {
        let plane = self.plane(plane)?;
        let place = plane.place(plane.of(self.lines)..plane.plane.rows);
        let (data, _) = self.map_any(sys::GPUD_READ | sys::GPUD_WRITE, timeout)?;
        Ok(MapMut(Map { data: unsafe { data.add(place.start) }, size: place.len(), frame: self }))
    }

    /// Orders a queue of the application's (a CUstream, hipStream_t, cl_command_queue) after the frame: work put on it
    /// from here on sees the frame's bytes.
    ///
    /// # Safety
    ///
    /// It must be a live queue of the frame's device.
    pub unsafe fn wait_queue(&mut self, queue: *mut c_void) -> Result<()> {
        call(|error| sys::gpud_frame_wait(self.raw, queue, error))
    }

    /// Orders the frame's release or submission after what is on the queue now.
    ///
    /// # Safety
    ///
    /// It must be a live queue of the frame's device.
    pub unsafe fn post_queue(&mut self, queue: *mut c_void) -> Result<()> {
        call(|error| sys::gpud_frame_post(self.raw, queue, error))
    }

    /// A dma-buf of the frame's memory, and the frame's first byte in it.
    pub fn export_dmabuf(&self) -> Result<(OwnedFd, u64)> {
        let (mut fd, mut offset) = (-1, 0);
        let (info, size) = (self.info(), self.info().layout.size);
        call(|error| unsafe {
            let memory = info.memory;
            sys::gpud_memory_export_dmabuf(memory, info.memory_offset, size, &mut fd, &mut offset, error)
        })?;
        Ok((unsafe { OwnedFd::from_raw_fd(fd) }, offset))
    }

    /// What the application's own VkDevice needs to import the memory of a frame on "vulkan:N": `fd` of the second is
    /// the number of the first, which vkAllocateMemory() takes over.
    pub fn export_vulkan(&self) -> Result<(OwnedFd, sys::gpud_vulkan_memory_info)> {
        let mut raw: sys::gpud_vulkan_memory_info = crate::sized();
        let info = self.info();
        call(|error| unsafe { sys::gpud_memory_export_vulkan(info.memory, &mut raw, error) })?;
        Ok((unsafe { OwnedFd::from_raw_fd(raw.fd) }, raw))
    }

    /// For calls of [`sys`]; it stays this frame's.
    pub fn as_ptr(&self) -> *mut sys::gpud_frame {
        self.raw
    }
}

/// A plane, of a picture of so many rows.
#[derive(Clone, Copy)]
struct Rows {
    plane: sys::gpud_plane,
    height: u32,
}

impl Rows {
    /// How many rows of the plane the first rows of the picture are.
    fn of(&self, lines: u32) -> u32 {
        (lines as u64 * self.plane.rows as u64 / self.height as u64) as u32
    }

    /// Where these rows lie in the frame.
    fn place(&self, rows: Range<u32>) -> Range<usize> {
        let start = self.plane.offset + rows.start as u64 * self.plane.stride as u64;
        let size = match rows.len() as u64 {
            0 => 0,
            rows => (rows - 1) * self.plane.stride as u64 + self.plane.row_bytes as u64,
        };
        start as usize..(start + size) as usize
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        unsafe { sys::gpud_frame_release(&mut self.raw) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Frame").field(&self.info()).finish()
    }
}

/// A frame's bytes: [`Frame::map`]. They are the slice that it derefs to.
///
/// ```
/// # fn sum(frame: &mut gpudirect::Frame) -> gpudirect::Result<u64> {
/// let bytes = frame.map(std::time::Duration::from_secs(1))?;
/// Ok(bytes.iter().map(|&one| one as u64).sum())
/// # }
/// ```
pub struct Map<'a> {
    data: *mut u8,
    size: usize,
    frame: &'a mut Frame,
}

unsafe impl Send for Map<'_> {}
unsafe impl Sync for Map<'_> {}

impl Deref for Map<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        unsafe { bytes(self.data, self.size) }
    }
}

impl Drop for Map<'_> {
    fn drop(&mut self) {
        unsafe { sys::gpud_frame_unmap(self.frame.raw) }
    }
}

/// A frame's bytes, to write: [`Frame::map_mut`], [`Frame::map_update`].
///
/// ```
/// # fn clear(frame: &mut gpudirect::Frame) -> gpudirect::Result<()> {
/// frame.map_mut(std::time::Duration::from_secs(1))?.fill(0);
/// # Ok(())
/// # }
/// ```
pub struct MapMut<'a>(Map<'a>);

impl Deref for MapMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for MapMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self.0.size {
            0 => &mut [],
            size => unsafe { slice::from_raw_parts_mut(self.0.data, size) },
        }
    }
}
