// SPDX-FileCopyrightText: 2026 gpudirect authors
// SPDX-License-Identifier: LGPL-2.1-or-later

//! What the frames of a stream are, and how they lie in memory.

use crate::context::c_string;
use crate::error::{call, string, text, Error, Result, Status};
use crate::sys;
use std::fmt::Write;
use std::ops::{Deref, Range};
use std::os::raw::c_char;
use std::{fmt, mem, str};

/// How a frame lies in memory: planes of rows. It derefs to its fields in C.
///
/// ```
/// use gpudirect::Layout;
/// let layout = Layout::new("NV12", 1920, 1080)?;
/// assert_eq!((layout.format().as_str(), layout.width, layout.planes()[1].rows), ("NV12", 1920, 540));
/// let same = Layout::with_planes("NV12", 1920, 1080, layout.planes(), layout.size)?;
/// assert_eq!(same.size, 1920 * 1080 * 3 / 2);
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Layout(pub(crate) sys::gpud_layout);

impl Layout {
    /// That of a format which the library knows, by GStreamer's name.
    pub fn new(format: &str, width: u32, height: u32) -> Result<Layout> {
        let format = c_string(format)?;
        let mut layout = Layout(unsafe { mem::zeroed() });
        call(|error| unsafe { sys::gpud_layout_init(&mut layout.0, format.as_ptr(), width, height, 0, error) })?;
        Ok(layout)
    }

    /// That of any format, plane by plane.
    pub fn with_planes(format: &str, width: u32, height: u32, planes: &[sys::gpud_plane], size: u64) -> Result<Layout> {
        let mut layout: sys::gpud_layout = unsafe { mem::zeroed() };
        put(&mut layout.format, format)?;
        (layout.width, layout.height, layout.planes, layout.size) = (width, height, planes.len() as u32, size);
        layout.plane.iter_mut().zip(planes).for_each(|(to, from)| *to = *from);
        call(|error| unsafe { sys::gpud_layout_check(&layout, error) })?;
        Ok(Layout(layout))
    }

    /// GStreamer's name of the format.
    pub fn format(&self) -> String {
        text(&self.0.format)
    }

    /// Where the planes lie.
    pub fn planes(&self) -> &[sys::gpud_plane] {
        &self.0.plane[..(self.0.planes as usize).min(self.0.plane.len())]
    }
}

impl Deref for Layout {
    type Target = sys::gpud_layout;

    fn deref(&self) -> &sys::gpud_layout {
        &self.0
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}x{}, {} bytes", self.format(), self.width, self.height, self.size)
    }
}

/// What the frames of a stream are: pictures, sound, data (also encoded) or tensors. Written and read (`to_string()`,
/// `parse()`) in the syntax of GStreamer's caps.
///
/// ```
/// use gpudirect::{Details, Media, Tensor};
/// let picture = Media::picture("UYVY", 1920, 1080).rate(25, 1).build()?;
/// assert_eq!(picture, "video/x-raw, format=UYVY, width=1920, height=1080, framerate=25/1".parse()?);
/// assert_eq!((picture.format().as_str(), picture.layout().size), ("UYVY", 1920 * 1080 * 2));
/// assert!(matches!(picture.details(), Details::Picture(picture) if picture.rate.num == 25));
///
/// let sound = Media::audio("S16LE", 48000, 2, 480).build()?; // blocks of 10 ms
/// let packets = Media::data("meta/x-st-2038", 65536).build()?;
/// let coded = Media::data("video/x-h264", 1 << 20).field("alignment", "au").build()?;
/// let boxes = Media::tensors(&[Tensor::new("boxes", "float32", &[64, 6]).batch()]).build()?;
/// assert_eq!(boxes.batch_of(boxes.batch_bytes(10).unwrap()), 10);
/// println!("{sound}\n{packets}\n{coded}\n{boxes}");
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone)]
pub struct Media(pub(crate) Box<sys::gpud_media>);

/// What a [`Media`] has to say about its kind; `gpudirect/media.h` describes the fields.
///
/// ```
/// use gpudirect::{Details, Media};
/// let media = Media::audio("F32LE", 44100, 1, 441).build()?;
/// assert!(matches!(media.details(), Details::Audio(audio) if audio.rate == 44100));
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[non_exhaustive]
pub enum Details<'a> {
    /// Pictures.
    Picture(&'a sys::gpud_picture),
    /// Blocks of sound.
    Audio(&'a sys::gpud_audio),
    /// What accompanies pictures.
    Ancillary(&'a sys::gpud_data),
    /// Any other data, such as encoded pictures.
    Data(&'a sys::gpud_data),
    /// Tensors that travel together.
    Tensors(Vec<Tensor>),
    /// Of a newer library.
    Other(u32),
}

impl Media {
    /// Pictures of a format by GStreamer's name: "RGBA", "NV12", "v210"…
    pub fn picture(format: &str, width: u32, height: u32) -> MediaBuilder {
        MediaBuilder::new("video/x-raw").field("format", format).add("width", width).add("height", height)
    }

    /// Sound: "S16LE", "F32LE"…, so many samples a second, channels, and samples of a channel in a frame.
    pub fn audio(format: &str, rate: u32, channels: u32, block: u32) -> MediaBuilder {
        let builder = MediaBuilder::new("audio/x-raw").field("format", format);
        builder.add("rate", rate).add("channels", channels).add("samples-per-block", block)
    }

    /// Data of a type as in caps, frames of up to so many bytes: "meta/x-klv", "meta/x-st-2038", "video/x-h264".
    pub fn data(kind: &str, max_size: u64) -> MediaBuilder {
        MediaBuilder::new(kind).add("max-size", format_args!("(guint64){max_size}"))
    }

    /// Tensors that travel together, each at a multiple of 256 bytes.
    pub fn tensors(tensors: &[Tensor]) -> MediaBuilder {
        const ALIGNMENT: u64 = 256; // as DLPack wishes
        let (mut end, mut batch, mut offsets) = (0u64, 0u64, vec![0; tensors.len()]);
        // A frame's bytes in use say how full the batch is, so that tensors that have it come last.
        let mut order: Vec<usize> = (0..tensors.len()).collect();
        order.sort_by_key(|&index| tensors[index].batched);
        for index in order {
            offsets[index] = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
            end =
                offsets[index] + tensors[index].range(tensors[index].shape.first().copied().unwrap_or(0)).len() as u64;
            batch |= (tensors[index].batched as u64).checked_shl(index as u32).unwrap_or(0);
        }
        let list = |of: &dyn Fn(&Tensor) -> String| tensors.iter().map(of).collect::<Vec<_>>().join(",");
        let shape = |one: &Tensor| one.shape.iter().rev().map(u32::to_string).collect::<Vec<_>>().join(":");
        let offsets: Vec<String> = offsets.iter().map(u64::to_string).collect();
        let builder = MediaBuilder::new("other/tensors").field("format", "static").add("num_tensors", tensors.len());
        let builder = builder.field("dimensions", &list(&shape)).field("types", &list(&|one| one.kind.clone()));
        let mut builder = builder.field("offsets", &offsets.join(","));
        if tensors.iter().any(|one| !one.name.is_empty()) {
            builder = builder.field("names", &list(&|one| one.name.clone()));
        }
        match batch {
            0 => builder,
            _ => builder.add("batch", format_args!("(bitmask){batch:#x}")),
        }
    }

    pub(crate) unsafe fn from_raw(raw: *const sys::gpud_media) -> Media {
        Media(Box::new(*raw))
    }

    /// What it is, in the terms of its kind.
    pub fn details(&self) -> Details<'_> {
        let of = &self.0.__bindgen_anon_1;
        unsafe {
            match self.0.kind {
                sys::GPUD_MEDIA_PICTURE => Details::Picture(&of.picture),
                sys::GPUD_MEDIA_AUDIO => Details::Audio(&of.audio),
                sys::GPUD_MEDIA_ANCILLARY => Details::Ancillary(&of.data),
                sys::GPUD_MEDIA_DATA => Details::Data(&of.data),
                sys::GPUD_MEDIA_TENSOR => Details::Tensors(Tensor::all(&of.tensors)),
                other => Details::Other(other),
            }
        }
    }

    /// The format of pictures or sound, or the type of data; empty of tensors.
    pub fn format(&self) -> String {
        match self.details() {
            Details::Picture(picture) => text(&picture.layout.format),
            Details::Audio(audio) => text(&audio.format),
            Details::Ancillary(data) | Details::Data(data) => text(&data.type_),
            Details::Tensors(_) | Details::Other(_) => String::new(),
        }
    }

    /// How a frame lies in memory: the largest, where they differ.
    pub fn layout(&self) -> Layout {
        let mut layout = Layout(unsafe { mem::zeroed() });
        // It was checked when it was made.
        let _ = call(|error| unsafe { sys::gpud_media_get_layout(&*self.0, &mut layout.0, error) });
        layout
    }

    fn raw_tensors(&self) -> Option<&sys::gpud_tensors> {
        (self.0.kind == sys::GPUD_MEDIA_TENSOR).then(|| unsafe { &self.0.__bindgen_anon_1.tensors })
    }

    /// The bytes of a frame whose batch of tensors has so many parts, for [`Frame::set_size`](crate::Frame::set_size).
    pub fn batch_bytes(&self, parts: u32) -> Option<u64> {
        let bytes = unsafe { sys::gpud_tensors_get_bytes(self.raw_tensors()?, parts) };
        (bytes != 0).then_some(bytes)
    }

    /// How many parts the batch of tensors has in a frame of so many bytes; 0 without a batch.
    pub fn batch_of(&self, bytes: u64) -> u32 {
        self.raw_tensors().map_or(0, |tensors| unsafe { sys::gpud_tensors_get_batch(tensors, bytes) })
    }
}

impl PartialEq for Media {
    fn eq(&self, other: &Media) -> bool {
        unsafe { sys::gpud_media_equal(&*self.0, &*other.0) }
    }
}

impl str::FromStr for Media {
    type Err = Error;

    fn from_str(caps: &str) -> Result<Media> {
        MediaBuilder { caps: caps.to_string(), layout: None }.build()
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = vec![0 as c_char; sys::GPUD_MEDIA_TEXT_MAX as usize];
        call(|error| unsafe { sys::gpud_media_to_string(&*self.0, buffer.as_mut_ptr(), buffer.len(), error) })
            .map_err(|_| fmt::Error)?;
        f.write_str(&string(buffer.as_ptr()))
    }
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes a [`Media`] of any kind.
///
/// ```
/// use gpudirect::{Layout, Media};
/// let media = Media::picture("v210", 1920, 1080)
///     .rate(30000, 1001)
///     .field("interlace-mode", "progressive") // any field of GStreamer's caps; those that are unknown travel, too
///     .layout(&Layout::new("v210", 1920, 1080)?) // for strides of your own
///     .build()?;
/// assert!(media.to_string().contains("interlace-mode=(string)progressive"));
/// assert!(Media::picture("v210", 0, 0).build().is_err());
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone)]
pub struct MediaBuilder {
    caps: String,
    layout: Option<Layout>,
}

impl MediaBuilder {
    fn new(kind: &str) -> MediaBuilder {
        MediaBuilder { caps: kind.to_string(), layout: None }
    }

    fn add(mut self, name: &str, value: impl fmt::Display) -> MediaBuilder {
        let _ = write!(self.caps, ", {name}={value}"); // a String takes all
        self
    }

    /// So many pictures, or frames of tensors, in so many seconds.
    pub fn rate(self, frames: u32, seconds: u32) -> MediaBuilder {
        self.add("framerate", format_args!("{frames}/{seconds}"))
    }

    /// A field of caps, whose value is a text.
    pub fn field(self, name: &str, value: &str) -> MediaBuilder {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        self.add(name, format_args!("(string)\"{value}\""))
    }

    /// A field of caps, whose value has another type: `typed("channel-mask", "bitmask", "0x3")`.
    pub fn typed(self, name: &str, kind: &str, value: &str) -> MediaBuilder {
        self.add(name, format_args!("({kind}){value}"))
    }

    /// Pictures lie like this.
    pub fn layout(mut self, layout: &Layout) -> MediaBuilder {
        self.layout = Some(*layout);
        self
    }

    /// The media, or what is wrong with it.
    pub fn build(self) -> Result<Media> {
        let caps = c_string(&self.caps)?;
        let mut media: Box<sys::gpud_media> = Box::new(unsafe { mem::zeroed() });
        call(|error| unsafe { sys::gpud_media_from_string(&mut *media, caps.as_ptr(), error) })?;
        match self.layout {
            Some(layout) if media.kind == sys::GPUD_MEDIA_PICTURE => media.__bindgen_anon_1.picture.layout = layout.0,
            Some(_) => return Err(Error::new(Status::Invalid, "only pictures have a layout: leave it out")),
            None => {}
        }
        let mut layout: sys::gpud_layout = unsafe { mem::zeroed() };
        call(|error| unsafe { sys::gpud_media_get_layout(&*media, &mut layout, error) })?;
        Ok(Media(media))
    }
}

/// Writes a text into an array of characters.
pub(crate) fn put(field: &mut [c_char], value: &str) -> Result<()> {
    if value.len() >= field.len() || value.contains('\0') {
        let reason = format!("{value:?} has a NUL, or more than {} bytes", field.len() - 1);
        return Err(Error::new(Status::Invalid, reason));
    }
    field.fill(0);
    field.iter_mut().zip(value.bytes()).for_each(|(to, from)| *to = from as c_char);
    Ok(())
}

/// A tensor: for [`Media::tensors`], and as [`Media::details`] has it.
///
/// ```
/// use gpudirect::{Details, Media, Tensor};
/// let features = Tensor::new("features", "float32", &[512]);
/// let boxes = Tensor::new("boxes", "float32", &[64, 6]).batch();
/// if let Details::Tensors(tensors) = Media::tensors(&[boxes, features]).rate(25, 1).build()?.details() {
///     assert_eq!((tensors[0].name.as_str(), tensors[0].range(10)), ("boxes", 2048..2288)); // 10 of 64
///     assert_eq!((tensors[1].kind.as_str(), &tensors[1].shape[..]), ("float32", &[512][..]));
/// }
/// # Ok::<(), gpudirect::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tensor {
    /// Its name; empty: it has none.
    pub name: String,
    /// What its elements are, by numpy's name: "float32", "uint8", "bool", "bfloat16"…
    pub kind: String,
    /// Bytes of an element.
    pub element: usize,
    /// Elements of each dimension.
    pub shape: Vec<u32>,
    /// Elements from one to the next of each dimension.
    pub strides: Vec<u32>,
    /// Its first byte in the frame.
    pub offset: u64,
    /// The first dimension is a batch: see [`Media::batch_of`].
    pub batched: bool,
}

impl Tensor {
    /// A tensor whose elements lie one after the other, the last dimension's side by side.
    pub fn new(name: &str, kind: &str, shape: &[u32]) -> Tensor {
        let digits = kind.chars().skip_while(|one| !one.is_ascii_digit()).take_while(char::is_ascii_digit);
        let element = digits.collect::<String>().parse::<usize>().map_or(1, |bits| bits / 8); // "bool" has none
        let mut strides = vec![1u32; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i].saturating_mul(shape[i]);
        }
        let (name, kind) = (name.to_string(), kind.to_string());
        Tensor { name, kind, element, shape: shape.to_vec(), strides, offset: 0, batched: false }
    }

    /// The first dimension is a batch that may not be full.
    pub fn batch(mut self) -> Tensor {
        self.batched = true;
        self
    }

    fn all(of: &sys::gpud_tensors) -> Vec<Tensor> {
        let count = (of.count as usize).min(of.tensor.len());
        let read = |(index, raw): (usize, &sys::gpud_tensor)| {
            let dimensions = (raw.dimensions as usize).min(raw.size.len());
            Tensor {
                name: text(&raw.name),
                kind: name_kind(raw),
                element: raw.bits as usize / 8 * raw.lanes as usize,
                shape: raw.size[..dimensions].to_vec(),
                strides: raw.stride[..dimensions].to_vec(),
                offset: raw.offset,
                batched: of.batch >> index & 1 == 1,
            }
        };
        of.tensor[..count].iter().enumerate().map(read).collect()
    }

    /// Its bytes in a frame, if the frame's batch has so many parts.
    pub fn range(&self, batch: u32) -> Range<usize> {
        let start = self.offset as usize;
        let mut last = 0usize;
        for (i, (&size, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            match if i == 0 && self.batched { batch } else { size } {
                0 => return start..start,
                size => last = last.saturating_add((size as usize - 1).saturating_mul(stride as usize)),
            }
        }
        start..start.saturating_add(last.saturating_add(1).saturating_mul(self.element))
    }
}

/// The name that the library writes for one tensor's elements: 'float32 64x6 "boxes"'.
fn name_kind(raw: &sys::gpud_tensor) -> String {
    let mut one: sys::gpud_tensors = unsafe { mem::zeroed() };
    (one.count, one.tensor[0]) = (1, *raw);
    let mut buffer = [0 as c_char; 256];
    unsafe { sys::gpud_tensors_to_string(&one, buffer.as_mut_ptr(), buffer.len()) };
    string(buffer.as_ptr()).split(' ').next().unwrap_or_default().to_string()
}
