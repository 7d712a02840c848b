# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Pictures as PNG, for notebooks."""

import re
import struct
import zlib

from .errors import Error

WIDEST = 1280  # pixels; wider pictures are shown by every second pixel, or every third…
PACKED_422 = {"UYVY": "UYVY", "YUY2": "YUYV", "YVYU": "YVYU", "VYUY": "VYUY"}
# Weights of red and blue in luma, by colorimetry's name and by GStreamer's number of the matrix.
BT601, BT709, BT2020 = (0.299, 0.114), (0.2126, 0.0722), (0.2627, 0.0593)
MATRICES = {"3": BT709, "4": BT601, "6": BT2020, "bt709": BT709, "bt601": BT601, "bt2020": BT2020, "bt2020-10": BT2020,
            "bt2100-pq": BT2020, "bt2100-hlg": BT2020}


def to_png(frame):
    """A PNG of a received picture, for notebooks; None where it cannot be shown: it is not a picture, is not there any
    more, or is of a format that is not converted here."""
    try:
        import numpy
        data = frame._download()
        planes = frame.planes
        parts = split(numpy, data, planes, frame.format) if data else {}
    except (Error, BufferError, ImportError):
        return None
    step = -(-frame.width // WIDEST)
    sample = sampler(numpy, frame, step)
    if parts.keys() >= set("RGB"):
        picture = numpy.stack([sample(parts[name]) for name in "RGB"], axis=-1)
    elif parts.keys() >= set("YUV"):
        picture = to_rgb(numpy, frame, *(sample(parts[name]).astype(numpy.float32) for name in "YUV"))
    elif parts.keys() == {"Y"}:
        picture = sample(parts["Y"])[..., None]
    else:
        return None
    return encode(numpy, picture)


def split(numpy, data, planes, format):
    """Components by their letters, in eight bits, each in its own resolution."""
    parts = {}
    for name, plane in planes.items():
        array = numpy.ndarray(plane.shape, plane.dtype, data, plane.offset, plane.strides)
        if array.itemsize == 2:
            array = (array >> shift_of(format)).astype(numpy.uint8)
        if name in PACKED_422:  # the second dimension is of pixels, the third has luma and one of the others in turn
            array = array.reshape(array.shape[0], -1)
            name = PACKED_422[name]
            for letter in "YUV":
                parts[letter] = array[:, name.index(letter)::2 if letter == "Y" else 4]
        elif set(name) <= set("RGBAXxYUV"):
            array = array.reshape(*array.shape[:2], len(name))
            parts |= {letter: array[..., at] for at, letter in enumerate(name)}
    return parts


def shift_of(format):
    """Bits below the highest eight: some formats have theirs at the lower end of 16."""
    low = re.search(r"_?(10|12)_?[LB]E(16)?$", format)
    return int(low.group(1)) - 8 if low and not re.match("P01|Y[24]1", format) else 8


def sampler(numpy, frame, step):
    """Gives each component the frame's resolution, divided by step."""
    rows, columns = numpy.arange(0, frame.height, step), numpy.arange(0, frame.width, step)

    def sample(part):
        across = -(-frame.width // part.shape[1])
        down = -(-frame.height // part.shape[0])
        return part[(rows // down)[:, None], columns // across]
    return sample


def to_rgb(numpy, frame, y, u, v):
    colors = (re.findall(r"colorimetry=(?:\(string\))?([\w:-]+)", frame.media) + [""])[0].split(":")
    red, blue = MATRICES.get(colors[1 if len(colors) > 1 else 0], BT709 if frame.height > 576 else BT601)
    u, v = u - 128, v - 128
    if colors[0] != "1":  # not all values, but 16 to 235, and 16 to 240
        y, u, v = (y - 16) * (255 / 219), u * (255 / 224), v * (255 / 224)
    r, b = y + 2 * (1 - red) * v, y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return numpy.clip(numpy.stack([r, g, b], axis=-1) + 0.5, 0, 255).astype(numpy.uint8)


def encode(numpy, picture):
    height, width, channels = picture.shape
    rows = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each begins with the number of its filter: none
    rows[:, 1:] = picture.reshape(height, -1)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 1)) +
            chunk(b"IEND", b""))
