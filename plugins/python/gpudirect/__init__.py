# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames between processes and devices, as arrays and without a copy.

    for frame in gpudirect.Receiver("cam1", device="cuda:0"):
        tensor = torch.from_dlpack(frame)

    with gpudirect.Sender("out", media="video/x-raw,format=RGBA,width=1920,height=1080,framerate=60/1") as sender:
        with sender.acquire() as frame:
            torch.from_dlpack(frame).copy_(tensor)

Threads: every object may be used from any thread; calls that wait release the GIL. Objects belong to the process that
made them: children start by multiprocessing's "spawn".
"""

import atexit
import collections.abc
import functools
import logging
import time as clock
import typing
import weakref

from . import _gpudirect, errors
from ._arrays import as_buffer, copy_on_device, name_type
from ._gpudirect import Frame, Plane, channels, devices
from ._loop import Frames, stop_waiting
from ._picture import to_png
from ._tensor import to_caps, tensor
from .errors import (AddressInUse, Closed, DeviceFailure, Error, Interrupted, Invalid, NoAccess, NoDevice, NoMemory,
                     PeerLost, TakenBack, Timeout, Unsupported)

__all__ = ["AddressInUse", "Capture", "Closed", "DeviceFailure", "Error", "Frame", "Group", "Instant", "Interrupted",
           "Invalid", "NoAccess", "NoDevice", "NoMemory", "PeerLost", "Plane", "Receiver", "Sender", "TakenBack",
           "Timeout", "Unsupported", "channels", "devices", "errors", "info", "tensor"]

__version__ = _gpudirect.version

Frame._repr_png_ = to_png  # notebooks show it

_open = weakref.WeakSet()


def __dir__():
    return [*__all__, "__doc__", "__version__"]


@atexit.register
def _close_all():
    """Peers are told before the process ends."""
    for one in list(_open):
        one.close()


class _Source:
    """What receivers and captures share."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __aiter__(self):
        return Frames(self, self.poll)

    def close(self):
        stop_waiting(self)
        super().close()


class Receiver(_Source, _gpudirect.Receiver):
    """Receiver(address, device="auto", *, timeout=None, name=None, slots=0, slow_receiver=None, require_direct=False,
    route=None, access=None, psk_file=None, busy_poll=0, on_event=None, alloc=None, by_lines=False,
    allow_old_dlpack=False, max_frame_size=0, on_disconnect="wait", tls_certificate=None, tls_key=None, tls_ca=None,
    on_switch=None)

    Receives the frames of a sender: an iterator, also for `async for`, and a context manager. It connects with the
    first frame, in either start order. The loop ends with the stream, when the sender has ended it (EOS); another loop
    takes the next stream. When the sender vanishes, its stream has not ended, and the loop waits for it to come back.

    device           "auto", "host" ("cpu" is the same), "cuda:0", …: where the frames arrive
    timeout          seconds that a step of the loop waits at most; None: without end
    on_disconnect    what a loop does when the sender vanishes or breaks the protocol. "wait": it logs a warning
                     (logging.getLogger("gpudirect")) and waits; "raise": it raises PeerLost; a function: it is called
                     with the PeerLost, and the loop waits, unless the function raises. acquire() and poll() raise
                     always; info["disconnects"] counts
    slots            frames that may be in flight or held at once; 0: 4 pictures or tensors, up to 60 blocks of sound
    slow_receiver    "block", "drop-newest" or "drop-oldest"; None: as the sender says
    busy_poll        seconds; 0: 250 µs; negative: waits always sleep
    on_event         called with the kind and the bytes of each Sender.send_event(), in order with the frames
    alloc            called with a slot's number and its bytes for each new format, inside of acquire(): returns where
                     the frames of that slot (Frame.slot) shall lie, a writable buffer, or, on a GPU, the number of its
                     memory, as of Tensor.data_ptr(), which lives as long as they do. It must not use the receiver
    by_lines         pictures that are still being written are received, too: see Frame.wait_lines()
    allow_old_dlpack gives shared frames also to consumers whose DLPack cannot say that they are read-only, such as
                     torch before 2.9: the application promises not to write into them
    max_frame_size   bytes of the largest frame that is taken; 0: sound, data and tensors of any size, and pictures of
                     about twice the bytes of their rows
    psk_file         for an address over a network: a file with the sender's key. info["encrypted"] says how the
                     connection is encrypted
    tls_certificate, tls_key, tls_ca
                     for an address "tcp://…", instead of a key: PEM files with this end's certificate, its key, and
                     the authorities that the sender's certificate must be from; all three
    on_switch        called when a switch() is over, with the address, and None or an exception that says why the old
                     sender goes on; None: that is logged as a warning
    """

    __slots__ = ("__weakref__", "_waiting")

    def __new__(cls, address, *arguments, on_disconnect="wait", on_switch=None, **named):
        if on_disconnect == "wait":
            on_disconnect = functools.partial(_warn, address)
        elif on_disconnect == "raise":
            on_disconnect = None
        elif not callable(on_disconnect):
            kind = ValueError if isinstance(on_disconnect, str) else TypeError
            raise kind(f'on_disconnect is "wait", "raise" or a function, not {on_disconnect!r}')
        return super().__new__(cls, address, *arguments, on_disconnect=on_disconnect,
                               on_switch=on_switch or _warn_of_switch, **named)

    def __init__(self, *arguments, **named):
        self._waiting = None
        _open.add(self)

    def __aiter__(self):
        return Frames(self, self._poll_loop)


def _warn_of_switch(address, error):
    if error:
        logging.getLogger("gpudirect").warning("no switch to %s: %s", address, error)


def _warn(address, error):
    logging.getLogger("gpudirect").warning("%s: %s; waiting for it to come back", address, error)


class Capture(_Source, _gpudirect.Capture):
    """Capture(address, format=None, width=0, height=0, fps=None, *, device="auto", timeout=None, slots=0, method=None,
    require_direct=False, input=None, controls=None)

    Captures from a V4L2 card, "v4l2:///dev/video0": an iterator, also for `async for`, and a context manager. With a
    format it begins at once, else by configure().
    """

    __slots__ = ("__weakref__", "_waiting")

    def __init__(self, *arguments, **named):
        self._waiting = None
        _open.add(self)


class _Fields(typing.NamedTuple):
    time: int
    frames: tuple
    member: int
    discontinuity: bool
    states: tuple


_Fields.time.__doc__ = "Of the instant, in ns."
_Fields.frames.__doc__ = "By member; None: it has none."
_Fields.member.__doc__ = 'The first one that has a frame; mode "any": the only one.'
_Fields.discontinuity.__doc__ = "Instants are missing before this one."
_Fields.states.__doc__ = 'By member: "present", "late", "skipped", "apart", "absent" or "ended".'


class Instant(_Fields):
    """What a group hands on: the frames of one instant.

    skip: of sound, in mode "any": samples of each channel at the beginning of the frame that were handed on before, in
    another member's block: leave them out.
    """

    skip = 0

    @classmethod
    def _of(cls, values):
        instant = cls(*values[:-1])
        if values[-1]:
            instant.skip = values[-1]
        return instant

    @property
    def frame(self):
        """The frame of `member`."""
        return self.frames[self.member]

    @property
    def complete(self):
        """Whether every member has a frame."""
        return None not in self.frames


class Group(_Source, _gpudirect.Group):
    """Group(addresses, mode="all", *, device="auto", history=0, tolerance=0, latency=0, freeze_timeout=0, timeout=None,
    name=None, slots=0, slow_receiver=None, require_direct=False, route=None, access=None, psk_file=None, busy_poll=0,
    on_event=None, time=None, allow_old_dlpack=False, tls_certificate=None, tls_key=None, tls_ca=None)

    Receives from several senders: an iterator of Instant, also for `async for`, and a context manager.

    mode             "all": one frame of each sender for an instant; "any": each instant once, of a main and a backup
                     sender, from the one that `preferred` (a number, which may be set at any time) says, if in time
    device           of all, or a list with one for each; as of a Receiver
    history          frames of each that acquire(at=time) can still read
    tolerance        seconds by which the times of one instant may differ; 0: just under half of a frame
    latency          seconds that an instant waits for a member; 0: two frames, or half of one in mode "any"
    freeze_timeout   mode "any", on the host: a sender whose pictures have stood still for so many seconds, by their
                     times, gives way to another one; 0: never. info["members"][…]["frozen"] tells of it
    timeout          seconds of a step of the loop at most; None: without end
    on_event         called with the member, the kind and the bytes of each Sender.send_event()
    time             called with the member and a dict of each frame, in a thread of the group: returns the instant that
                     it is of, in ns, or None: it is dropped. Without it, the frame's pts is its instant

    The rest is as of a Receiver.
    """

    __slots__ = ("__weakref__", "_waiting")

    def __new__(cls, addresses, mode="all", *, device="auto", history=0, tolerance=0, latency=0, freeze_timeout=0,
                timeout=None, name=None, slots=0, slow_receiver=None, require_direct=False, route=None, access=None,
                psk_file=None, busy_poll=0, on_event=None, time=None, allow_old_dlpack=False, tls_certificate=None,
                tls_key=None, tls_ca=None):
        if isinstance(addresses, str):
            raise TypeError("a group has a list of addresses")
        if mode not in ("all", "any"):
            raise ValueError(f'mode "{mode}": "all" and "any" are possible')
        addresses = tuple(addresses)
        one = device is None or isinstance(device, str)
        devices_of = (device,) * len(addresses) if one else tuple(device)
        if len(devices_of) != len(addresses):
            raise ValueError(f"{len(addresses)} addresses, and {len(devices_of)} devices")
        return super().__new__(cls, tuple(zip(addresses, devices_of)), mode == "any", history, tolerance, latency,
                               freeze_timeout, timeout, name, slots, slow_receiver, require_direct, route, access,
                               psk_file, busy_poll, on_event, time, allow_old_dlpack, tls_certificate, tls_key,
                               tls_ca)

    def __init__(self, *arguments, **named):
        self._waiting = None
        _open.add(self)

    def __next__(self):
        return Instant._of(super().__next__())

    def acquire(self, timeout=None, *, newest=False, at=None):
        """The next Instant; the newest; or that at a time in ns, which can be read again while the history has it.
        Waits so many seconds at most. Raises Timeout; Closed at the end of the last stream, after which the next call
        waits for the next one."""
        return Instant._of(super().acquire(timeout, newest=newest, at=at))

    def poll(self):
        """The next Instant, or None if no instant is complete."""
        instant = super().poll()
        return instant and Instant._of(instant)


class Sender(_gpudirect.Sender):
    """Sender(address, media=None, *, device="auto", name=None, slots=0, slow_receiver=None, require_direct=False,
    route=None, access=None, psk_file=None, allow_unauthenticated=False, standby=False, large_meta_max=0,
    tls_certificate=None, tls_key=None, tls_ca=None, announce=True)

    Sends frames to any number of receivers. As a context manager it ends the stream in order, or, at an exception,
    without.

    media           in the syntax of caps: "video/x-raw,format=RGBA,width=1920,height=1080,framerate=60/1"; or a
                    tensor(), or a list of those that travel together
    device          where the frames are written, as of a Receiver
    slots           frames in flight for each receiver; 0: 4 pictures or tensors, up to 60 blocks of sound or data
    slow_receiver   "block" (as None), "drop-newest" or "drop-oldest"
    standby         while another sender has the address, waits for it instead of raising: info["stands_by"]
    large_meta_max  bytes that a frame's large_meta may have; 0: 65536
    psk_file, tls_certificate, tls_key, tls_ca
                    as of a Receiver; links[…]["encrypted"] says how each connection is encrypted. ["degraded"], also
                    of a Receiver's info, names what to change for the better route that the devices allow, or is ""
    announce        whether other hosts find an address over a network by its name (DNS-SD)
    """

    __slots__ = ("__weakref__", "_copies")

    def __new__(cls, address, media=None, **named):
        self = super().__new__(cls, address, to_caps(media, address), **named)
        self._copies = 0
        return self

    def __init__(self, *arguments, **named):
        _open.add(self)

    def __enter__(self):
        return self

    def configure(self, media):
        """Begins a new format, as of media=. Lent frames of the previous one can only be dropped."""
        super().configure(to_caps(media, ""))

    @property
    def info(self):
        """State and counters, as gpud_sender_info has them, and in "copies" how many arrays were copied into frames; of
        a closed one, the last."""
        return {**super().info, "copies": self._copies}

    def submit(self, frame, timeout=None, *, pts=None):
        """Hands a frame to every receiver: a lent, received or captured one; or an array, as send() does. Its
        presentation time is set to pts, in ns, if that is not None.

        A frame is the receivers' then: arrays of it that are still there keep their memory, whose content becomes
        another frame's. After Timeout it is as it was."""
        if not isinstance(frame, Frame):
            self.send(frame, timeout, pts=pts)
            return
        if pts is not None:
            frame.pts = pts
        super().submit(frame, timeout)

    def send(self, array, timeout=None, *, pts=None):
        """Copies an array into a lent frame, and hands it to every receiver; of several tensors, a dict of arrays.

        An array has the shape and type of the sender's frames (Frame.shape, Frame.dtype); a block of sound or data may
        be shorter, and so may a batch. It is a buffer (numpy's, bytes), has an array interface or DLPack. One on a GPU
        is copied by its own library, on that library's current stream; only torch copies from another device than the
        sender's. info["copies"] counts. Nothing is copied of what is written into frames of acquire()."""
        end = None if timeout is None else clock.monotonic() + timeout
        several = isinstance(array, collections.abc.Mapping)
        arrays = {name: (one, as_buffer(one)) for name, one in (array if several else {None: array}).items()}
        lent = self.acquire(timeout)
        try:
            if several or lent.batch is not None:
                _fill_tensors(lent, arrays)
            else:
                _fill(lent, lent, *arrays[None])
            self._copies += len(arrays)
            lent.pts = pts
            super().submit(lent, None if end is None else max(0, end - clock.monotonic()))
        finally:
            lent.release()

    def __exit__(self, exception, *_):
        if exception is None and not self.closed and self.media is not None:
            self.send_eos()
        self.close()


def _fill(lent, target, array, buffer):
    """Copies an array into a lent frame, or into the tensor of it, that it fits. buffer: None on a device."""
    if buffer is None:
        copy_on_device(target, array, lent.device)
        return
    if target is lent and not lent.planes and not lent.tensors and 0 < buffer.nbytes < lent.size:
        lent.size = buffer.nbytes
    try:
        shape, dtype = target.shape, target.dtype
    except AttributeError as error:
        raise Invalid(f"{error}, of a frame of acquire()") from None
    if (buffer.shape, name_type(buffer)) != (shape, dtype):
        raise Invalid(f"an array of {buffer.shape} {name_type(buffer)} does not fit into frames of {shape} {dtype} "
                      f"({lent.format})")
    lent._fill(buffer, *(() if target is lent else (target,)))


def _fill_tensors(lent, arrays):
    """The same with all tensors of the frame, whose batch is as full as the arrays'."""
    full = {name: one.shape for name, one in lent.tensors.items()}
    if None in arrays and len(full) == 1:
        arrays = {name: arrays[None] for name in full}
    if set(arrays) != set(full):
        raise Invalid(f"the frames have the tensors {list(full)}: give a dict of as many arrays")
    shapes = {name: tuple((array if buffer is None else buffer).shape) for name, (array, buffer) in arrays.items()}
    parts = {shape[0] for name, shape in shapes.items() if shape != full[name] and shape[1:] == full[name][1:]}
    if lent.batch is not None and len(parts) > 1:
        raise Invalid(f"the arrays have batches of {sorted(parts)} parts: give each as many")
    if lent.batch is not None and parts:
        lent.batch = parts.pop()
    tensors = lent.tensors
    for name, (array, buffer) in arrays.items():
        _fill(lent, tensors[name], array, buffer)


def info():
    """The version of the library, the devices of this machine and the channels of this user."""
    return {"version": _gpudirect.version, "devices": devices(), "channels": channels()}
