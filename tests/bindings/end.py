# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The end in Python: see conformance.py."""

import signal
import sys
import zlib

try:
    import numpy
except ImportError as missing:
    print(f"{missing}: install it (Debian: apt install python3-numpy)", file=sys.stderr)
    sys.exit(77)

import gpudirect

DELTA = 1 << 7
ORDERS = {"media": str, "count": int, "slots": int, "receivers": int, "hold": int, "key": int, "quiet": int,
          "late": int, "timeout": float, "pause": str, "sizes": str}


def tell(*words):
    print(*words, flush=True)


def tell_failure(error):
    tell("status", error.status, error)


def numbers(text):
    return [int(number) for number in text.split(",")] if text else []


def pause_at(orders, frames):
    if frames in numbers(orders["pause"]):
        tell("paused", frames)
        sys.stdin.readline()
        return True
    return False


def arrays(frame):
    """The rows of all planes, or the bytes in use."""
    return [numpy.asarray(plane) for plane in frame.planes.values()] or [numpy.asarray(frame.raw)]


def send_one(sender, number, orders):
    frame = sender.acquire(orders["timeout"])
    sizes = numbers(orders["sizes"])
    if sizes:
        frame.size = sizes[number % len(sizes)]
    at = 0
    for array in arrays(frame):
        pattern = (7 * number + at + numpy.arange(array.nbytes)) % 251
        array[...] = pattern.astype(numpy.uint8).view(array.dtype).reshape(array.shape)
        at += array.nbytes
    frame.pts = number * 40_000_000
    frame.flags = DELTA if orders["key"] and number % orders["key"] else 0
    sender.submit(frame, orders["timeout"])


def send(address, orders):
    with gpudirect.Sender(address, orders["media"], device="host", slots=orders["slots"]) as sender:
        tell("ready")
        sender.wait(orders["receivers"], 10)
        for number in range(orders["count"]):
            while True:
                try:
                    send_one(sender, number, orders)
                    break
                except gpudirect.Timeout as error:
                    tell_failure(error)
                    sys.stdin.readline()
            pause_at(orders, number + 1)


def look_at(word, frame, quiet=False):
    total = 1
    for array in arrays(frame):
        total = zlib.adler32(array.tobytes(), total)
    if not quiet:
        tell(word, frame.number, frame.pts, frame.flags, frame.size, total)


def release(held):
    while held:
        frame = held.pop(0)
        look_at("held", frame)
        frame.release()


def receive(address, orders):
    held, epoch, count = [], None, 0
    with gpudirect.Receiver(address, device="host", slots=orders["slots"]) as receiver:
        tell("ready")
        while count < orders["count"]:
            try:
                frame = receiver.acquire(orders["timeout"])
            except gpudirect.PeerLost as error:
                tell_failure(error)
                continue
            except gpudirect.Closed as error:
                tell_failure(error)
                break
            if frame.epoch != epoch:
                epoch = frame.epoch
                tell("media", frame.media)
            look_at("frame", frame, orders["quiet"])
            if count < orders["hold"]:
                held.append(frame)
            else:
                frame.release()
            del frame
            count += 1
            if pause_at(orders, count) and not orders["late"]:
                release(held)
    if orders["late"]:
        tell("late")
        sys.stdin.readline()
    release(held)


def main(role, address, *words):
    orders = {"media": None, "count": sys.maxsize, "slots": 0, "receivers": 1, "hold": 0, "key": 0, "quiet": 0,
              "late": 0, "timeout": 10.0, "pause": None, "sizes": None}
    for word in words:
        name, _, value = word.partition("=")
        orders[name] = ORDERS[name](value)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        {"send": send, "receive": receive}[role](address, orders)
    except KeyboardInterrupt:
        tell("status", "again", "interrupted")
    except gpudirect.Error as error:
        tell_failure(error)
    tell("end")


main(*sys.argv[1:])
