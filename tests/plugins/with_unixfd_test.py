# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""unixfdsink and unixfdsrc on both sides of ours: whole pictures, pictures that stay while they are held, and a death
of each of the four processes."""

import os
import pathlib
import signal

from chains import ALL, DEADLINE, LIVE, Chain, Pictures, caps, check, end_of, folder, kill, need, wait_for


def unixfdsrc(path, *more):
    wait_for(f"the socket {path}", lambda: os.path.exists(path))
    return ["unixfdsrc", f"socket-path={path}", *more, "!"]


def unixfdsink(path, *more):
    return ["unixfdsink", f"socket-path={path}", "sync=false", *more]


def check_formats():
    """Every picture arrives: all sinks wait for the element behind them."""
    for form, size in (("NV12", (50, 20)), ("I420", (49, 20)), ("RGB", (51, 20)), ("v210", (50, 20))):
        pictures = Pictures(form, size, 24)
        with Chain() as chain:
            last = chain.start("last", "gpudirectsrc", "address=b", "!", *unixfdsink("3", "wait-for-connection=true"))
            middle = chain.start("middle", "gpudirectsrc", "address=a", "!",
                                 *unixfdsink("2", "wait-for-connection=true"))
            first = chain.start("first", *ALL, caps(form, size), "!", *unixfdsink("1", "wait-for-connection=true"))
            to_a = chain.start("to-a", *unixfdsrc("1"), "gpudirectsink", "address=a", "sync=false",
                               "slow-receiver=block", "wait-for-connection=true")
            to_b = chain.start("to-b", *unixfdsrc("2"), "gpudirectsink", "address=b", "sync=false",
                               "slow-receiver=block", "wait-for-connection=true")
            out = chain.start("out", *unixfdsrc("3"), "filesink", f"location={form}")
            for name, process in (("first", first), ("to-a", to_a), ("middle", middle), ("to-b", to_b),
                                  ("last", last), ("out", out)):
                end_of(process, name)
            pictures.check_all(form)
            path = [line for line in chain.log("to-a").splitlines() if "active-path" in line]
            check(path and path[-1].endswith("map"), f"the path is {path}")


def check_sound():
    source = ["audiotestsrc", "num-buffers=30", "wave=white-noise", "!",
              "audio/x-raw,format=S16LE,rate=48000,channels=2", "!", "tee", "name=t", "!", "queue", "!",
              "filesink", "location=sound.sent", "t.", "!", "queue", "!"]
    with Chain() as chain:
        ours = chain.start("ours", "gpudirectsrc", "address=a/audio", "!", *unixfdsink("4", "wait-for-connection=true"))
        out = chain.start("out", *unixfdsrc("4"), "filesink", "location=sound.out")
        sender = chain.start("sender", *source, "gpudirectsink", "address=a/audio", "sync=false", "slow-receiver=block",
                             "wait-for-connection=true")
        for name, process in (("sender", sender), ("ours", ours), ("out", out)):
            end_of(process, name)
        sent, came = (pathlib.Path(name).read_bytes() for name in ("sound.sent", "sound.out"))
        check(len(sent) > 0 and sent == came, f"of {len(sent)} bytes of sound {len(came)} came, or others")


def check_deaths():
    pictures = Pictures("NV12", (50, 20))
    with Chain() as chain:
        def start_first():
            if os.path.exists("1"):
                os.unlink("1")
            return chain.start("first", *LIVE, pictures.caps, "!", *unixfdsink("1"))

        def start_to_ours():
            return chain.start("to-ours", *unixfdsrc("1"), "gpudirectsink", "address=a", "sync=false")

        def start_from_ours():
            if os.path.exists("2"):
                os.unlink("2")
            return chain.start("from-ours", "gpudirectsrc", "address=a", "on-eos=wait", "!", *unixfdsink("2"))

        def start_out(name):
            return chain.start(name, *unixfdsrc("2"), "filesink", f"location={name}", "buffer-mode=unbuffered")

        first, from_ours = start_first(), start_from_ours()
        to_ours = start_to_ours()
        out, other = start_out("out"), start_out("other")
        for name in ("out", "other"):
            pictures.wait_for(name, 10)

        # A client that holds pictures, and dies with them: the other one goes on.
        other.send_signal(signal.SIGSTOP)
        pictures.wait_for("out", 20)
        kill(other)
        pictures.wait_for("out", 20)

        # What is between: its receiver waits for the next one, and so does what is behind that.
        kill(to_ours)
        to_ours = start_to_ours()
        pictures.wait_for("out", 10)

        # The first one: unixfdsrc ends or fails, as it always does, and ours wait.
        kill(first)
        to_ours.wait(DEADLINE)
        first = start_first()
        to_ours = start_to_ours()
        pictures.wait_for("out", 10)

        # The receiver: the sender goes on, and the next one gets pictures.
        kill(from_ours)
        out.wait(DEADLINE)
        pictures.check_order("out", starts=2)
        pictures.check_order("other")
        from_ours, out = start_from_ours(), start_out("again")
        pictures.wait_for("again", 10)
        pictures.check_order("again")
        check(to_ours.poll() is None and first.poll() is None, "a dead receiver ends its sender")


need({"unixfdsrc": "gstreamer1.0-plugins-bad 1.24 or later", "gpudirectsink": "not built"})
with folder():
    check_formats()
    check_sound()
    check_deaths()
