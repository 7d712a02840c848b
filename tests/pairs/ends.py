# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The two ends of a pipeline, each in a process that was forked: GStreamer's elements, or the Python package.

They share counters with the pair, so that no result depends on how fast the machine is: a live sender sends at its
times, but never more than LAG ahead of what its receiver has taken. What is lost then is lost by the product."""

import collections
import ctypes
import gc
import json
import os
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst

from schedule import (CAPS, MS, NAMES, RATES, SIZES, bytes_of, depends, find, kinds_of, number_of, read, schedule,
                      split)

DEADLINE = 60  # seconds, of any wait
STALL = 10  # seconds, until a buffer that nothing has counted as lost is believed to be
LAG = 30 * MS
STALLED = range(60, 80)  # the pictures of these numbers are sent while the receiver stands still
SLOTS = 6  # where the receiver stands still for more; blocks and units have more by default
KEPT = 12
CLOSED = 3  # GPUD_CLOSED
META = "GpudPairs"
META_TEXT = "m" * 30000
DEVICES = {"map": ("host", "host"), "staged": ("opencl:0", "host"), "opencl": ("opencl:0", "opencl:0"),
           "cuda": ("cuda:0", "cuda:0"), "tcp": ("host", "host")}
POLICIES = {"file": "auto", "live": "auto", "live-block": "block", "live-newest": "drop-newest",
            "live-oldest": "drop-oldest"}
WHOLE_QUEUE = "queue max-size-buffers=0 max-size-bytes=0 max-size-time=0"

Counters = ctypes.c_uint64 * 9  # taken and sent, of four streams; lost
TAKEN, SENT, LOST = 0, 4, 8
DELTA = 1 << 7  # GPUD_FRAME_DELTA

# PyGObject makes a class and the values of an enumeration when they are first used, and not for two threads at a time.
CLASSES = [Gst.Buffer, Gst.Sample, Gst.Segment, Gst.CustomMeta, Gst.Structure, Gst.PadProbeInfo]
TIME, OK = Gst.Format.TIME, Gst.FlowReturn.OK
DISCONT, DEPENDS = Gst.BufferFlags.DISCONT, Gst.BufferFlags.DELTA_UNIT
PROBED, BUFFER = Gst.PadProbeReturn.OK, Gst.PadProbeType.BUFFER

# PyGObject gives a copy of a meta's structure, in which nothing can be set.
_gst = ctypes.CDLL("libgstreamer-1.0.so.0")
_gst.gst_buffer_add_custom_meta.restype = _gst.gst_custom_meta_get_structure.restype = ctypes.c_void_p
_gst.gst_buffer_add_custom_meta.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_gst.gst_custom_meta_get_structure.argtypes = [ctypes.c_void_p]
_gst.gst_structure_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]


def add_meta(buffer, text):
    structure = _gst.gst_custom_meta_get_structure(_gst.gst_buffer_add_custom_meta(hash(buffer), META.encode()))
    _gst.gst_structure_set(structure, b"text", 16 << 2, text.encode(), None)  # 16 << 2: G_TYPE_STRING


class Ended(Exception):
    """The other end of the pipe says no more."""


class Talk:
    """A pipe's end: lines of JSON."""

    def __init__(self, source, sink):
        self.source, self.sink = os.fdopen(source, "r"), os.fdopen(sink, "w")

    def say(self, what, **more):
        self.sink.write(json.dumps([what, more]) + "\n")
        self.sink.flush()

    def hear(self):
        line = self.source.readline()
        if not line:
            raise Ended()
        return json.loads(line)


class Streams:
    """What both ends know of a pipeline's streams."""

    def __init__(self, p, changes):
        self.p = p
        self.changes = changes
        self.kinds = kinds_of(p["media"])
        self.stalls = stalls(p)

    def wait(self, what, holds, seconds=DEADLINE):
        """what: None: that it lasts too long is no failure, but returns False."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                if what:
                    raise RuntimeError(f"waited {seconds} s in vain until {what}")
                return False
            time.sleep(0.001)
        return True


def stalls(p):
    """Whether the receiver stands still for some pictures, which are lost by the policy."""
    return (p["pace"] in ("live-newest", "live-oldest") and p["downstream"] == "direct" and p["change"] == "none"
            and p["handover"] in ("plain", "programme") and p["media"] in ("picture", "tensors", "coded")
            and p["ends"] == "gst-gst")


def address_of(p, channel):
    """Between hosts each pipeline has an address of its own: its process's number."""
    pid = os.getppid()
    return f"tcp://127.{pid >> 16 & 63 | 64}.{pid >> 8 & 255}.{pid & 255}:7175/{channel}" if p["route"] == "tcp" \
        else channel


def key_of(p):
    """The file of the key."""
    return os.path.abspath("key") if p["route"] == "tcp" else None


def key_property(p):
    return f" psk-file={key_of(p)}" if key_of(p) else ""


class Bus:
    """Keeps what a pipeline says: all that is no part of every run."""

    def __init__(self, pipeline):
        self.bus, self.said, self.qos, self.ended = pipeline.get_bus(), [], 0, False
        self.failed = False

    def look(self):
        while True:
            message = self.bus.pop()
            if not message:
                return
            if message.type in (Gst.MessageType.WARNING, Gst.MessageType.ERROR):
                parse = message.parse_warning if message.type == Gst.MessageType.WARNING else message.parse_error
                error, debug = parse()
                self.said.append(f"{message.src.get_name()}: {error.message} ({debug})")
                self.failed |= message.type == Gst.MessageType.ERROR
            elif message.type == Gst.MessageType.QOS and message.src.get_factory().get_name() == "gpudirectsrc":
                self.qos = max(self.qos, message.parse_qos_stats()[2])
            self.ended |= message.type == Gst.MessageType.EOS and message.src is not None \
                and isinstance(message.src, Gst.Pipeline)


def held():
    """What this process has of the product: its memory, and its sockets."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            pass
    with open("/proc/self/maps") as maps:
        links += [line.split(maxsplit=5)[5].strip() for line in maps if "/memfd:" in line]
    return collections.Counter(link.partition(":")[0] if link.startswith("socket:") else link for link in links
                               if link.startswith("socket:") or "memfd:gpud" in link)


def check_held(talk, before, seconds=10):
    """What ends in the background has so long."""
    end = time.monotonic() + seconds
    while True:
        gc.collect()
        more = held() - before
        if not more or time.monotonic() > end:
            return talk.say("held", held=dict(more))
        time.sleep(0.05)


# --- senders

class Sender(Streams):

    def __init__(self, p, talk, counters, channel, slot, second, alone):
        super().__init__(p, p["change"] == "caps")
        self.talk, self.counters, self.channel, self.alone = talk, counters, channel, alone
        self.slot = slot
        self.live = p["pace"] != "file"
        block = 20 if second else 10
        self.items = sorted(((item, slot + i, kind) for i, kind in enumerate(self.kinds)
                             for item in schedule(kind, self.changes, block)), key=lambda entry: entry[0].pts)
        self.sent = collections.defaultdict(list)  # by slot: what was not taken yet
        self.begun = {}  # by slot: the time of the last one that was
        self.ungated, self.lost, self.late = False, 0, 0

    def may_send(self, item, slot):
        """Whether all that is older than LAG was taken, and the first at all; what was lost is not waited for."""
        sent = self.sent[slot]
        while sent and self.counters[TAKEN + slot] >= sent[0].first + sent[0].count:
            self.begun[slot] = sent.pop(0).pts
        if self.stalls and (item.first in STALLED or sent and sent[0].first in STALLED):
            return True
        lost, self.lost = self.lost, self.dropped() + self.counters[LOST]
        if self.lost > lost:
            sent.clear()
        oldest = item.pts - LAG if slot in self.begun else item.pts - 1
        return self.ungated or not sent or sent[0].pts > oldest

    def await_receivers(self, there=True):
        self.wait("receivers are there" if there else "receivers have left",
                  lambda: {count > 0 for count in self.receivers()} == {there})

    def run(self, start, begin, end):
        self.begun.clear()
        self.sent.clear()
        joins = set(range(4)) if begin and self.p["handover"] == "backup" else set()
        for item, slot, kind in self.items:
            if item.pts < begin or item.pts >= end:
                continue
            if slot in joins:  # in step with the other sender, which a busy machine may hold up
                self.wait(None, lambda: self.counters[SENT + slot] >= item.first, STALL)
                joins.remove(slot)
            if self.live:
                time.sleep(max(0, start + item.pts - time.monotonic_ns()) / 1e9)
                # What is lost without a trace is seen in the end.
                self.ungated |= not self.wait(None, lambda: self.may_send(item, slot), STALL)
                self.late = max(self.late, time.monotonic_ns() - start - item.pts)
            arrives = not self.alone or self.receivers()[slot - self.slot] > 0
            # A receiver begins with what depends on no other.
            arrives &= slot in self.begun or bool(self.sent[slot]) or not depends(kind, item)
            self.push(item, slot, kind, start)
            if arrives:
                self.sent[slot].append(item)
            self.counters[SENT + slot] = item.first + item.count


class GstSender(Sender):

    def __init__(self, p, talk, counters, channel, slot, second, alone):
        super().__init__(p, talk, counters, channel, slot, second, alone)
        parts = [self.describe(i, kind) for i, kind in enumerate(self.kinds)]
        self.pipeline = Gst.parse_launch(" ".join(parts))
        self.pipeline.use_clock(Gst.SystemClock.obtain())
        self.bus = Bus(self.pipeline)
        self.sinks = [self.pipeline.get_by_name(f"sink{i}") for i in range(len(parts))]
        names = [f"{name}{i}" for name in ("source", "gpu") for i in range(len(parts))]
        self.sources = [source for source in map(self.pipeline.get_by_name, names) if source]
        self.caps = {kind: [Gst.Caps.from_string(caps) for caps in CAPS[kind]] for kind in self.kinds}

    def describe(self, i, kind):
        p = self.p
        device = DEVICES[p["route"]][0] if kind == "picture" else "host"
        sink = (f"gpudirectsink name=sink{i} address={address_of(p, self.channel)}{NAMES[kind]} sync=false async=false"
                f" slow-receiver={POLICIES[p['pace']]} standby={str(p['handover'] == 'standby').lower()}"
                f" device={'auto' if p['change'] == 'device' else device}{key_property(p)}"
                + (f" slots={SLOTS}" if stalls(p) else ""))
        source = f"format=time is-live={str(self.live).lower()} block=true max-buffers=1 max-bytes=0"
        if p["change"] != "device":
            return f"appsrc name=source{i} {source} caps={CAPS[kind][0]} ! {sink}"
        return (f"appsrc name=source{i} {source} caps={CAPS[kind][0]}"
                f" ! input-selector name=both sync-streams=false ! {sink}"
                f" appsrc name=gpu{i} {source} caps={CAPS[kind][0]} ! cudaupload ! both.")

    def receivers(self):
        return [sink.get_property("num-clients") for sink in self.sinks]

    def dropped(self):
        return sum(sink.get_property("stats").get_uint64("dropped-slow-receiver").value for sink in self.sinks)

    def begin(self):
        self.pipeline.set_state(Gst.State.PLAYING)
        if not self.alone:
            self.await_receivers()
        self.base = self.pipeline.get_base_time()

    def push(self, item, slot, kind, start):
        buffer = Gst.Buffer.new_wrapped(bytes_of(kind, item))
        # A pipeline begins before its sender does: what is older than it has no time.
        buffer.pts = item.pts + (start - self.base if self.live else 0)
        buffer.duration = item.duration if item.duration else Gst.CLOCK_TIME_NONE
        buffer.offset = item.first
        if kind == "coded":
            buffer.dts = buffer.pts
        if depends(kind, item):
            buffer.set_flags(DEPENDS)
        if self.p["extra"] == "metas":
            add_meta(buffer, f"{item.first} {META_TEXT}")
        i = slot - self.slot
        gpu = self.p["change"] == "device" and 1000 * MS <= item.pts < 2000 * MS
        if self.p["change"] == "device":
            both = self.pipeline.get_by_name("both")
            both.set_property("active-pad", both.get_static_pad(f"sink_{int(gpu)}"))
        sample = Gst.Sample.new(buffer, self.caps[kind][item.form], None, None)
        flow = self.pipeline.get_by_name(f"{'gpu' if gpu else 'source'}{i}").emit("push-sample", sample)
        if flow != OK:
            self.bus.look()
            raise RuntimeError(f"the sender's {kind} {item.first} ends with {flow}: {self.bus.said}")
        if self.p["change"] == "device":  # one branch does not overtake the other
            self.wait("it was sent", lambda: self.sinks[i].get_property("stats").get_uint64("frames").value
                      > item.first)

    def end_stream(self):
        for source in self.sources:
            source.emit("end-of-stream")

        def ended():
            self.bus.look()
            return self.bus.ended or self.bus.failed
        self.wait("the sender's pipeline has ended", ended)

    def cycle(self):
        self.end_stream()
        self.bus.ended = False
        self.pipeline.set_state(Gst.State.READY)
        self.begin()

    def stop(self):
        self.end_stream()
        self.bus.look()
        self.talk.say("done", bus=self.bus.said, dropped=self.dropped(), late=self.late)
        self.pipeline.set_state(Gst.State.NULL)
        self.pipeline = self.bus = self.sinks = self.sources = None


class CEnd:
    """The C library, as end.c uses it."""

    POLICIES = {"block": 1, "drop-newest": 2, "drop-oldest": 3}

    def __init__(self, p, address, policy=None, by_lines=False):
        key = key_of(p)
        self.library = ctypes.CDLL(os.path.join(os.environ["PAIRS_BUILD"], "tests", "pairs", "libpairs-end.so"))
        self.library.end_new.restype = ctypes.c_void_p
        self.library.end_reason.restype = ctypes.c_char_p
        self.library.end_dropped.restype = ctypes.c_uint64
        self.library.end_receives_from.restype = ctypes.c_bool
        self.end = ctypes.c_void_p(self.library.end_new(address.encode(), key and key.encode(),
                                                        self.POLICIES.get(policy, 0), policy is not None, by_lines))
        if self.library.end_reason(self.end):
            raise RuntimeError(self.library.end_reason(self.end).decode())

    def call(self, name, *args):
        status = getattr(self.library, "end_" + name)(self.end, *args)
        if status != 0:
            raise RuntimeError(f"{name}: {self.library.end_reason(self.end).decode()} ({status})")

    def dropped(self):
        return self.library.end_dropped(self.end)

    def close(self):
        self.library.end_free(self.end)


def core_media(kind, form):
    """GStreamer's caps do not say how long blocks are."""
    return CAPS[kind][form] + {"sound": f",samples-per-block={RATES[form]}", "coded": ",max-size=70000"}.get(kind, "")


def part_of_slot(kind, item):
    """Whether a frame may be shorter than its slot."""
    return kind in ("sound", "coded") or kind == "tensors" and bool(item.form)


def core_policy(p):
    return {"file": "block", "live": "drop-oldest"}.get(p["pace"], POLICIES[p["pace"]])


class CSender(Sender):

    def __init__(self, p, *args):
        super().__init__(p, *args)
        self.kind, self.form = self.kinds[0], 0
        self.end = CEnd(p, address_of(p, self.channel + NAMES[self.kind]), core_policy(p))
        self.end.call("configure", core_media(self.kind, 0).encode())

    def dropped(self):
        return self.end.dropped()

    def receivers(self):
        return [self.end.library.end_receivers(self.end.end)]

    def begin(self):
        if not self.alone:
            self.await_receivers()

    def push(self, item, slot, kind, start):
        if item.form != self.form:
            self.form = item.form
            self.end.call("configure", core_media(kind, item.form).encode())
        data = bytes_of(kind, item)
        numbers = map(ctypes.c_uint64, (item.first, start + item.pts, item.duration))
        self.end.call("push", data, ctypes.c_size_t(len(data)), part_of_slot(kind, item), *numbers,
                      ctypes.c_uint32(DELTA if depends(kind, item) else 0),
                      SIZES[item.form][1] if self.p["extra"] == "lines" else 0)

    def stop(self):
        self.end.call("stop")
        self.talk.say("done", bus=[], dropped=self.dropped(), late=self.late)
        self.end.close()


class PythonSender(Sender):

    def __init__(self, p, talk, counters, channel, slot, second, alone):
        super().__init__(p, talk, counters, channel, slot, second, alone)
        import gpudirect
        self.kind, self.form = self.kinds[0], 0
        self.sender = gpudirect.Sender(address_of(p, channel + NAMES[self.kind]), media=core_media(self.kind, 0),
                                       device="host", slow_receiver=core_policy(p), psk_file=key_of(p))

    def dropped(self):
        return self.sender.info["dropped"]

    def receivers(self):
        return [self.sender.info["receivers"]]

    def begin(self):
        if not self.alone:
            self.await_receivers()

    def push(self, item, slot, kind, start):
        if item.form != self.form:
            self.form = item.form
            self.sender.configure(core_media(kind, item.form))
        data = bytes_of(kind, item)
        with self.sender.acquire(timeout=DEADLINE) as frame:
            if part_of_slot(kind, item):
                frame.size = len(data)
            frame.flags = DELTA if depends(kind, item) else 0
            frame.offset, frame.pts, frame.duration = item.first, start + item.pts, item.duration
            view = memoryview(frame.raw).cast("B")
            if self.p["extra"] == "lines":
                width, height = SIZES[item.form]
                half = height // 2 * 4 * width
                view[:half] = data[:half]
                self.sender.submit_lines(frame, height // 2)
                view[half:len(data)] = data[half:]
            else:
                view[:len(data)] = data
            view.release()

    def stop(self):
        self.sender.send_eos()
        self.talk.say("done", bus=[], dropped=self.dropped(), late=self.late)
        self.sender.close()
        self.sender = None


def run_sender(p, talk, counters, channel, slot=0, second=False, alone=False):
    before = held()
    kind = {"python": PythonSender, "c": CSender}.get(p["ends"].split("-")[0], GstSender)
    sender = kind(p, talk, counters, channel, slot, second, alone)
    sender.begin()
    talk.say("ready")
    while True:
        what, more = talk.hear()
        if what == "go":
            sender.run(more["start"], more["begin"], more["end"])
            talk.say("sent")
        elif what == "cycle":
            sender.cycle()
            talk.say("ready")
        elif what in ("join", "leave"):
            sender.await_receivers(what == "join")
            talk.say(what)
        else:
            sender.stop()
            return check_held(talk, before)


# --- receivers

class Receiver(Streams):
    """Keeps (first, count, time, whether it is flagged) of each buffer, or a text: what is wrong with it."""

    def __init__(self, p, talk, counters):
        super().__init__(p, p["change"] == "caps")
        self.talk, self.counters = talk, counters
        self.slots = [(0, "picture"), (1, "picture")] if p["handover"] == "group" else list(enumerate(self.kinds))
        self.items = {slot: schedule(kind, self.changes) for slot, kind in self.slots}
        self.came = {slot: [] for slot, _ in self.slots}
        self.kept = {slot: collections.deque(maxlen=KEPT) for slot, _ in self.slots}

    def take(self, slot, number, size):
        kind = dict(self.slots)[slot]
        self.counters[TAKEN + slot] = max(self.counters[TAKEN + slot], number + (size // 4 if kind == "sound" else 1))

    def see(self, slot, data, pts, flagged, depending):
        kind = dict(self.slots)[slot]
        came = read(kind, self.items[slot], data)
        if not isinstance(came, str) and depending != depends(kind, find(self.items[slot], came[0])):
            came = f"{came[0]} is said to depend on others: {depending}"
        self.came[slot].append(came if isinstance(came, str) else [*came, pts, flagged])


class GstReceiver(Receiver):

    def __init__(self, p, talk, counters):
        super().__init__(p, talk, counters)
        self.waits = p["change"] in ("restart", "eos") or p["handover"] == "standby"
        self.pipeline = Gst.Pipeline()
        self.pipeline.use_clock(Gst.SystemClock.obtain())
        self.bus = Bus(self.pipeline)
        self.sources = {}
        if p["handover"] == "programme":
            bin = Gst.parse_launch(f"gpudirectprogramsrc name=programme {self.describe('picture')}"
                                   f" address={address_of(p, 'cam')}")
            bin.connect("pad-added", self.on_pad)
            bin.connect("deep-element-added", self.on_source)
            self.pipeline.add(bin)
        else:
            for slot, kind in self.slots:
                self.add(slot, kind)

    def describe(self, kind):
        p = self.p
        device = DEVICES[p["route"]][1] if kind == "picture" else "host"
        return (f"device={'auto' if p['change'] == 'device' else device} on-eos={'wait' if self.waits else 'eos'}"
                + key_property(p))

    def add(self, slot, kind):
        p = self.p
        channel = ("cam", "cam2")[slot] if p["handover"] == "group" else "cam"
        more = " group=pairs group-latency=2000000000" if p["handover"] == "group" else ""
        more += f" backup-address={address_of(p, 'cam2')}{NAMES[kind]}" if p["handover"] == "backup" else ""
        source = Gst.parse_launch(f"gpudirectsrc address={address_of(p, channel)}{NAMES[kind]} {self.describe(kind)}"
                                  + more)
        self.sources[slot] = source
        pad = source.get_static_pad("src")
        pad.add_probe(BUFFER, self.on_buffer, slot)
        self.pipeline.add(source)
        self.add_downstream(slot, pad)

    def on_source(self, _bin, _parent, element):
        if element.get_factory().get_name() == "gpudirectsrc":
            self.sources[len(self.sources)] = element

    def on_pad(self, _bin, pad):
        slot = next(slot for slot, kind in self.slots
                    if "src" + NAMES[kind].replace("/", "_") == pad.get_name())
        pad.add_probe(BUFFER, self.on_buffer, slot)
        self.add_downstream(slot, pad)

    def add_downstream(self, slot, pad):
        out = f"appsink name=out{slot} emit-signals=true sync=false async=false"
        chain = {
            "direct": out, "keep": out,
            "late": f"tee name=tee{slot} ! {WHOLE_QUEUE} ! {out} tee{slot}. ! {WHOLE_QUEUE}"
                    " ! fakesink sync=true async=false ts-offset=200000000",
            "hold": f"{WHOLE_QUEUE} min-threshold-time=200000000 ! {out}",
            "record": f"queue ! filesink location=out{slot} async=false sync=false",
        }[self.p["downstream"]]
        bin = Gst.parse_bin_from_description(chain, True)
        self.pipeline.add(bin)
        sink = bin.get_by_name(f"out{slot}")
        if sink:
            sink.connect("new-sample", self.on_sample, slot)
        bin.sync_state_with_parent()
        pad.link(bin.get_static_pad("sink") or bin.sinkpads[0])

    def on_buffer(self, _pad, info, slot):
        buffer = info.get_buffer()
        self.take(slot, number_of(buffer.extract_dup(0, 4)), buffer.get_size())
        return PROBED

    def on_sample(self, sink, slot):
        sample = sink.emit("pull-sample")
        buffer, segment = sample.get_buffer(), sample.get_segment()
        if self.p["downstream"] == "keep":
            self.kept[slot].append(buffer)
        data = buffer.extract_dup(0, buffer.get_size())
        running = segment.to_running_time(TIME, buffer.pts)
        self.see(slot, data, running + self.pipeline.get_base_time(), buffer.has_flags(DISCONT),
                 buffer.has_flags(DEPENDS))
        if self.p["extra"] == "metas":
            meta = buffer.get_custom_meta(META)
            text = meta.get_structure().get_string("text") if meta else None
            number, _, rest = (text or "none").partition(" ")
            # Of a block that was cut it is the whole block's.
            most = max(RATES) * 20 // 1000 if dict(self.slots)[slot] == "sound" else 1
            if rest != META_TEXT or not 0 <= number_of(data) - int(number) < most:
                self.came[slot].append(f"the meta of {number_of(data)} is {text and text[:20]}")
        if self.stalls and STALLED[0] <= number_of(data) < STALLED[-1] and not self.kept[slot]:
            self.kept[slot].append(None)
            self.wait("the sender goes on", lambda: self.counters[SENT + slot] > STALLED[-1])
        return OK

    def begin(self):
        self.pipeline.set_state(Gst.State.PLAYING)

    def switch(self, channel):
        address = address_of(self.p, channel)
        self.wanted = {slot: address + NAMES[kind] for slot, kind in self.slots
                       if self.p["handover"] != "group" or slot == 0}
        if self.p["handover"] == "programme":
            self.pipeline.get_by_name("programme").set_property("address", address)
        else:
            for slot, text in self.wanted.items():
                self.sources[slot].set_property("address", text)

    def arrived(self):
        received = [source.get_property("stats").get_string("address") for source in self.sources.values()]
        return all(address in received for address in self.wanted.values())

    def look(self):
        self.bus.look()
        self.counters[LOST] = self.dropped() + self.late()
        return self.bus.ended or self.bus.failed

    def dropped(self):
        return sum(source.get_property("stats").get_uint64("dropped").value for source in self.sources.values())

    def late(self):
        """Packets that came from one sender of a pair after later ones of the other, and were dropped."""
        stats = [source.get_property("stats") for source in self.sources.values()]
        return sum(one.get_value(name).get_uint64("late").value for one in stats for name in ("main", "backup")
                   if one.has_field(name))

    def stop(self):
        if self.waits:  # an end by the application drops what was not taken yet
            ends = {slot: items[-1].first + items[-1].count for slot, items in self.items.items()}
            self.wait(None, lambda: all(self.counters[TAKEN + slot] >= end for slot, end in ends.items()), STALL)
            self.pipeline.send_event(Gst.Event.new_eos())
        self.wait("the receiver's stream has ended", self.look)
        self.look()
        more = {"bus": self.bus.said, "qos": self.bus.qos, "dropped": self.dropped(), "late": self.late()}
        self.pipeline.set_state(Gst.State.NULL)
        for slot, kind in self.slots if self.p["downstream"] == "record" else ():
            with open(f"out{slot}", "rb") as file:
                self.came[slot] = [piece if isinstance(piece, str) else [*piece, None, False]
                                   for piece in split(kind, self.items[slot], file.read())]
        self.kept = self.pipeline = self.bus = self.sources = None
        return more


class CoreReceiver(Receiver):
    """A thread receives until the stream ends."""

    def begin(self):
        self.kind, self.ended = self.kinds[0], False
        self.open(address_of(self.p, "cam" + NAMES[self.kind]), self.p["extra"] == "lines")
        threading.Thread(target=self.receive, daemon=True).start()

    def note(self, data, pts, flags):
        self.take(0, number_of(data), len(data))
        self.see(0, data, pts, False, bool(flags & DELTA))

    def receive(self):
        try:
            self.receive_all()
        except Exception as error:
            self.came[0].append(f"the receiver: {error!r}")
        self.counters[LOST] = self.dropped()
        self.ended = True

    def stop(self):
        self.wait("the receiver's stream has ended", lambda: self.ended)
        more = {"bus": [], "qos": 0, "dropped": self.dropped(), "late": 0}
        self.close()
        return more


class PythonReceiver(CoreReceiver):

    def open(self, address, by_lines):
        import gpudirect
        self.receiver = gpudirect.Receiver(address, device="host", timeout=DEADLINE, by_lines=by_lines,
                                           psk_file=key_of(self.p))

    def receive_all(self):
        for frame in self.receiver:
            if self.p["extra"] == "lines":
                frame.wait_lines(frame.height, timeout=DEADLINE)
            data = bytes(memoryview(frame.raw).cast("B"))
            self.note(data if self.kind == "picture" else data[:frame.size], frame.pts, frame.flags)
            if self.p["downstream"] == "keep":
                self.kept[0] = frame

    def switch(self, channel):
        self.wanted = address_of(self.p, channel + NAMES[self.kind])
        self.receiver.switch(self.wanted, timeout=DEADLINE)

    def arrived(self):
        return self.receiver.info["address"] == self.wanted

    def dropped(self):
        return self.receiver.info["dropped"]

    def close(self):
        self.kept.clear()
        self.receiver.close()
        self.receiver = None


class CReceiver(CoreReceiver):

    def open(self, address, by_lines):
        self.end = CEnd(self.p, address, None, by_lines)

    def receive_all(self):
        data, size = ctypes.create_string_buffer(1 << 20), ctypes.c_size_t()
        pts, flags = ctypes.c_uint64(), ctypes.c_uint32()
        while True:
            size.value = len(data)
            status = self.end.library.end_take(self.end.end, data, *map(ctypes.byref, (size, pts, flags)))
            if status == CLOSED:
                return
            if status != 0:
                raise RuntimeError(self.end.library.end_reason(self.end.end).decode())
            self.note(data.raw[:size.value], pts.value, flags.value)

    def switch(self, channel):
        self.wanted = address_of(self.p, channel + NAMES[self.kind]).encode()
        key = key_of(self.p)
        self.end.call("switch", self.wanted, key and key.encode())

    def arrived(self):
        return self.end.library.end_receives_from(self.end.end, self.wanted)

    def dropped(self):
        return self.end.dropped()

    def close(self):
        self.end.close()


def run_receiver(p, talk, counters):
    before = held()
    kind = {"python": PythonReceiver, "c": CReceiver}.get(p["ends"].split("-")[1], GstReceiver)
    receiver = kind(p, talk, counters)
    receiver.begin()
    talk.say("ready")
    while True:
        what, more = talk.hear()
        if what == "switch":
            receiver.switch(more["channel"])
        elif what == "arrive":
            receiver.wait("the other sender is received", receiver.arrived)
        else:
            break
        talk.say(what)
    more = receiver.stop()
    talk.say("came", came=receiver.came, **more)
    del receiver
    check_held(talk, before)


def run_end(role, *args):
    """In the child."""
    try:
        Gst.init(None)
        Gst.Meta.register_custom(META, [], None)
        role(*args)
        status = 0
    except Ended:
        status = 0
    except Exception as error:
        args[1].say("failed", text=f"{role.__name__}: {error!r}")
        status = 1
    sys.stdout.flush()
    os._exit(status)
