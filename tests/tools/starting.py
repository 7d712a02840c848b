#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Where the time from gst-launch-1.0 to the first picture goes: of a sender for which a receiver waits, and of a
receiver that joins a running sender. Each stage ends with a line of the program's log, whose stamp is the time since
GStreamer's start; that start is known from when the lines arrive here. Then, beside what GStreamer's own sources of
other processes' pictures take: the whole life of a receiver that ends with its first picture.

    GST_PLUGIN_PATH=build/plugins/gst tests/tools/starting.py --from cuda:0 --to cuda:0
"""

import argparse
import contextlib
import ctypes
import os
import re
import select
import signal
import statistics
import subprocess
import tempfile
import time

DEBUG = "GST_INIT:4,GST_PLUGIN_LOADING:4,gpudirectcore:4,gpudirectsink:4,gpudirectsrc:4"
# What a stage is, and the line that ends it, of a sender and of a receiver, whose last two are its sender's, too.
STAGES = {
    "process": ("the process, its libraries", "Initializing GStreamer", "Initializing GStreamer"),
    "gstreamer": ("GStreamer, its registry", "initialized GStreamer successfully",
                  "initialized GStreamer successfully"),
    "plugin": ("the plugin, its libraries", 'libgstgpudirect.so" loaded', 'libgstgpudirect.so" loaded'),
    "elements": ("elements, devices", "sender: sending on ", "receiver: receiving from "),
    "offer": ("format and ring; connection, offer", "sender: epoch ", "receiver: epoch "),
    "link": ("link, test frame", " connected by ", "receiver: connected to "),
    "frame": ("until the next frame", None, "gpudirect-sender-connected, "),
    "picture": ("frames from before the receiver's start", None, "the signal is there: pictures come"),
}
STAMP = re.compile(r"(\d+):(\d\d):(\d\d\.\d+) +(\d+) ")
DEVICE = re.compile(r"device: \S+ driver in ([\d.]+) ms, opened in ([\d.]+) ms")
LARGE = "video/x-raw,format=UYVY,width=3840,height=2160,framerate=60/1"
MIDDLE = "video/x-raw,format=UYVY,width=1280,height=720,framerate=60/1"  # of several senders at a time
PATIENCE = 60
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Program:
    """gst-launch-1.0 at work. ends: the stamps of the stages; offset: of stamps to this process's clock; both in s."""

    def __init__(self, side, *words, debug=DEBUG):
        self.side, self.ends, self.offset, self.devices_ms, self.last, self.rest = side, {}, float("inf"), 0, "", b""
        env = {key: value for key, value in os.environ.items() if key != "GST_DEBUG_FILE"}
        env |= {"GST_DEBUG": debug, "GST_DEBUG_NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
        self.begin = time.monotonic()
        self.process = subprocess.Popen(["gst-launch-1.0", "-q", *words], env=env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, preexec_fn=self.end_with_parent)

    @staticmethod
    def end_with_parent():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def read(self):
        """False: it has ended."""
        data, now = os.read(self.process.stderr.fileno(), 65536), time.monotonic()
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in (line.decode(errors="replace") for line in lines):
            if line and not self.last.startswith("ERROR: "):
                self.last = line
            # Others are gst-launch-1.0's own lines, and those of a process that scans plugins for it.
            stamp = STAMP.match(line)
            if not stamp or int(stamp[4]) != self.process.pid:
                continue
            when = (int(stamp[1]) * 60 + int(stamp[2])) * 60 + float(stamp[3])
            self.offset = min(self.offset, now - when)
            for name, (_, *ends) in STAGES.items():
                if ends[self.side] and ends[self.side] in line:
                    self.ends.setdefault(name, when)
            for found in DEVICE.finditer(line):
                self.devices_ms += float(found[1]) + float(found[2])
        return bool(data)

    def wait_for(self, stage, *others):
        """Reads all logs until that stage of this one has ended."""
        deadline = time.monotonic() + PATIENCE
        programs = {program.process.stderr: program for program in (self, *others)}
        while stage not in self.ends:
            for program in map(programs.get, select.select(list(programs), [], [], 1)[0]):
                if not program.read():
                    raise RuntimeError(f"the {('sender', 'receiver')[program.side]} ended before its first picture: "
                                       f"{program.last}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{STAGES[stage][0]!r} was not reached in time; the program says: {self.last}")

    def times(self, receiver):
        """ms. A stage that ended before the one ahead of it took nothing: a receiver may be there before the format."""
        before, found = self.begin, {}
        for name in STAGES:
            program = self if STAGES[name][1 + self.side] else receiver
            end = program.offset + program.ends[name]
            found[name] = max(end - before, 0) * 1000
            before = max(before, end)
        return found | {"devices": self.devices_ms}


def measure_once(source, to, caps, folder):
    sending = (f"videotestsrc pattern=black is-live=true ! {caps} ! "
               f"gpudirectsink address=unix:{folder}/link device={source}")
    receiving = f"gpudirectsrc address=unix:{folder}/link device={to} ! fakesink"
    with Program(1, *receiving.split()) as receiver:
        receiver.wait_for("elements")
        with Program(0, *sending.split()) as sender:
            sender.wait_for("link", receiver)
            receiver.wait_for("picture", sender)
            first = sender.times(receiver)
            receiver.process.kill()
            with Program(1, *receiving.split()) as second:
                second.wait_for("picture", sender)
                return first, second.times(second)


def measure(source="host", to="host", runs=5, caps=LARGE):
    """Medians over the runs, of the sender and of the receiver, and their sums."""
    with tempfile.TemporaryDirectory() as folder:
        all_runs = [measure_once(source, to, caps, folder) for _ in range(runs)]
    sides = [{key: statistics.median(run[side][key] for run in all_runs) for key in all_runs[0][side]}
             for side in range(2)]
    for times in sides:
        times["all"] = sum(times[stage] for stage in STAGES)
        times["own"] = times["all"] - times["process"] - times["gstreamer"] - times["devices"]
    return sides


# Sources of one picture, and the sink at the other end, by their names.
OTHERS = {
    "fakesrc": ("", "fakesrc num-buffers=1"),
    "shmsrc": ("shmsink wait-for-connection=false shm-size=100000000 socket-path={}/shm",
               "shmsrc num-buffers=1 socket-path={}/shm"),
    "unixfdsrc": ("unixfdsink socket-path={}/fd", "unixfdsrc num-buffers=1 socket-path={}/fd"),
}


def element_exists(name):
    return subprocess.run(["gst-inspect-1.0", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=PATIENCE).returncode == 0


def measure_lives(source="host", to="host", runs=5, caps=MIDDLE):
    """Medians, in ms, of receivers from their start to their end, one of each kind after the other, by their source."""
    receiving = f"num-buffers=1 address=unix:{{}}/link device={to}"
    # The first picture that comes, as of the others; by default, the first that belongs after the receiver's start.
    pairs = {"gpudirectsrc start=oldest": (f"gpudirectsink address=unix:{{}}/link device={source}",
                                           f"gpudirectsrc start=oldest {receiving}"),
             "gpudirectsrc": ("", f"gpudirectsrc {receiving}")}
    pairs |= {name: pair for name, pair in OTHERS.items() if element_exists(name)}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as senders:
        for sink, _ in pairs.values():
            if sink:
                senders.enter_context(Program(0, *f"videotestsrc pattern=black is-live=true ! {caps} ! "
                                              f"{sink.format(folder)}".split(), debug=""))
        lives = {name: [] for name in pairs}
        # A sender that is not there yet ends an shmsrc; of each, the first that works is not counted.
        deadline = time.monotonic() + PATIENCE
        while min(map(len, lives.values())) <= runs:
            for name, (_, receiving) in pairs.items():
                begin = time.monotonic()
                done = subprocess.run(["gst-launch-1.0", "-q", *receiving.format(folder).split(), "!", "fakesink"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
                if done.returncode == 0:
                    lives[name].append((time.monotonic() - begin) * 1000)
                elif lives[name] or time.monotonic() > deadline:
                    raise RuntimeError(f"a receiver by {name} ended before its first picture: {done.stderr}")
    return {name: statistics.median(times[1:]) for name, times in lives.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", default="host", help="the sender's device (host)")
    parser.add_argument("--to", default="host", help="the receiver's device (host)")
    parser.add_argument("--runs", type=int, default=5, help="(5)")
    options = parser.parse_args()
    sender, receiver = measure(options.source, options.to, options.runs)
    print(f"{options.source} to {options.to}, ms, medians of {options.runs}\n  {'':42}{'sender':>10}{'receiver':>12}")
    labels = {name: what for name, (what, *_) in STAGES.items()}
    labels |= {"devices": "of these, drivers and devices", "all": "in all",
               "own": "without GStreamer's own, drivers, devices"}
    for key, label in labels.items():
        print(f"  {label:42}{sender[key]:10.1f}{receiver[key]:12.1f}")
    print("receivers from their start to their end, with the first picture, ms")
    for name, life in measure_lives(options.source, options.to, options.runs).items():
        print(f"  {name:42}{life:22.1f}")


if __name__ == "__main__":
    main()
