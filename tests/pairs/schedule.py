# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What is sent: numbered pictures, counted samples, numbered blocks of data, each at its time. Both ends know it."""

import array
import bisect
import dataclasses
import struct

MS = 1000000
SECONDS = 3
HALF = SECONDS * 1000 * MS // 2
SIZES = ((160, 120), (192, 108))
RATES = (48000, 32000)
CHANGES = [1000 * MS, 2000 * MS, (SECONDS * 1000 - 20) * MS]  # of caps; behind the last one is the end
CAPS = {
    "picture": ["video/x-raw,format=RGBA,width=%d,height=%d,framerate=50/1" % size for size in SIZES],
    "sound": [f"audio/x-raw,format=S32LE,layout=interleaved,rate={rate},channels=1" for rate in RATES],
    "ancillary": ["meta/x-st-2038,alignment=packet,framerate=50/1"],
    "klv": ["meta/x-klv,parsed=true"],
    "tensors": ['other/tensors,format=static,num_tensors=2,dimensions="5:16,1:9",types="uint32,uint32",framerate=50/1,'
                'names="boxes,classes"',
                # Of a batch, which a buffer has a part of.
                'other/tensors,format=static,num_tensors=2,dimensions="7:20,1:20",types="float32,int32",framerate=50/1,'
                'batch=(bitmask)0x3'],
    "coded": ["video/x-h264,stream-format=byte-stream,alignment=au,width=160,height=120,framerate=50/1",
              "video/x-h265,stream-format=byte-stream,alignment=au,width=192,height=108,framerate=50/1"],
}
NAMES = {"picture": "", "sound": "/audio", "ancillary": "/data", "klv": "/data", "tensors": "/tensors",
         "coded": "/coded"}
BURST = range(40, 60)  # blocks of KLV of one time
LARGE = 70  # the block, and the unit, that outgrows the slots
GROUP = 5  # units, from one that depends on no other to the next; one begins where another sender, or format, does


@dataclasses.dataclass
class Item:
    """A buffer. Pictures and blocks have one number, sound as many as samples; the format is one of CAPS."""
    first: int
    count: int
    pts: int
    duration: int
    form: int


def kinds_of(media):
    return ["picture", "sound", "tensors", "coded"] if media == "programme" else [media]


def _form(time, changes):
    return bisect.bisect(CHANGES, time) % 2 if changes else 0


def _sound(changes, block):
    """In blocks of so many ms, of which the first one is shorter if they are longer than 10."""
    first, time, length, items = 0, 0, min(block, 10 + block % 7), []
    while time < SECONDS * 1000:
        limits = [limit // MS for limit in CHANGES if changes and limit // MS > time] + [SECONDS * 1000]
        length = min(length, limits[0] - time)
        form = _form(time * MS, changes)
        items.append(Item(first, RATES[form] * length // 1000, time * MS, length * MS, form))
        first, time, length = first + items[-1].count, time + length, block
    return items


def schedule(kind, changes=False, block=10):
    if kind == "sound":
        return _sound(changes, block)
    if kind in ("picture", "tensors", "coded"):
        return [Item(i, 1, i * 20 * MS, 20 * MS, _form(i * 20 * MS, changes)) for i in range(SECONDS * 50)]
    if kind == "ancillary":
        return [Item(i, 1, i // 4 * 20 * MS, 20 * MS, 0) for i in range(SECONDS * 200)]
    time, items = 0, []
    while time < SECONDS * 1000 * MS:
        items.append(Item(len(items), 1, time, 0, 0))
        time += 0 if len(items) in BURST else (len(items) * 37 % 60 + 1) * MS
    return items


_samples = array.array("i", range(SECONDS * max(RATES))).tobytes()


def size_of(kind, item):
    if kind == "picture":
        width, height = SIZES[item.form]
        return 4 * width * height
    if kind == "tensors":
        return 4 * (7 * 20 + 1 + item.first % 20 if item.form else 5 * 16 + 9)
    return 4 * item.count if kind == "sound" else 70000 if kind in ("klv", "coded") and item.first == LARGE else \
        24 + 4 * (item.first % 10)


def depends(kind, item):
    """Whether it is of no use without those before."""
    return kind == "coded" and item.first % GROUP != 0 and item.pts != CHANGES[-1]


def bytes_of(kind, item):
    if kind == "sound":
        return _samples[4 * item.first:4 * (item.first + item.count)]
    return struct.pack("<I", item.first) * (size_of(kind, item) // 4)


def number_of(data):
    return struct.unpack_from("<I", data)[0]


def find(items, number):
    """The item that a number belongs to; None: none has it."""
    at = bisect.bisect(items, number, key=lambda item: item.first) - 1
    return items[at] if 0 <= at and number < items[at].first + items[at].count else None


def read(kind, items, data):
    """The numbers in the bytes of a buffer, (first, count); a text: what is wrong with it."""
    if len(data) < 4:
        return f"{len(data)} bytes"
    number = number_of(data)
    item = find(items, number)
    if not item:
        return f"a buffer begins with {number}, which was not sent"
    if kind == "sound":
        whole = data == _samples[4 * number:4 * number + len(data)]
        return (number, len(data) // 4) if whole else f"the samples that begin with {number} are others within"
    return (number, 1) if data == bytes_of(kind, item) else f"number {number} is not whole: {len(data)} bytes"


def split(kind, items, data):
    """The same of a file, in which one buffer follows the other."""
    if kind == "sound":  # one piece wherever the samples follow each other
        numbers, begin, pieces = array.array("i", data), 0, []
        for at in range(1, len(numbers) + 1):
            if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
                pieces.append((numbers[begin], at - begin))
                begin = at
        return pieces
    pieces = []
    while data:
        item = find(items, number_of(data)) if len(data) >= 4 else None
        piece = read(kind, items, data[:size_of(kind, item)]) if item else f"{len(data)} bytes at the end of the file"
        pieces.append(piece)
        if not item:
            break
        data = data[size_of(kind, item):]
    return pieces


def time_of(items, number):
    item = find(items, number)
    return item.pts + item.duration * (number - item.first) // item.count
