#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a 1080p picture from another process costs a torch program on the CPU: by gpudirect.Receiver, and by appsink
behind shmsrc with the copy that numpy makes of its buffer. Both read one row of each picture. For an idle machine with
python3-gi and gir1.2-gst-plugins-base-1.0."""

import os
import statistics
import subprocess
import sys
import time

import support
from support import DEADLINE

WIDTH, HEIGHT, RATE = 1920, 1080, 60
CAPS = f"video/x-raw,format=RGBA,width={WIDTH},height={HEIGHT},framerate={RATE}/1"
FRAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 300
RUNS = 5

DIRECT = """
import sys, time, torch, gpudirect
with gpudirect.Receiver(sys.argv[1], device="host", allow_old_dlpack=True) as receiver:
    cpu, number = time.process_time(), 0
    for frame in receiver:
        if number == 0:
            cpu = time.process_time()
        number += 1
        torch.from_dlpack(frame)[540].float().mean().item()
        if number > int(sys.argv[2]):
            break
print((time.process_time() - cpu) / int(sys.argv[2]) * 1e6)
"""

APPSINK = """
import sys, time, gi, numpy, torch
gi.require_version("Gst", "1.0")
gi.require_version("GstApp", "1.0")
from gi.repository import Gst, GstApp
Gst.init(None)
pipeline = Gst.parse_launch(f"shmsrc socket-path={sys.argv[1]} is-live=true ! {sys.argv[3]} ! "
                            "appsink name=out sync=false max-buffers=2 drop=true")
sink = pipeline.get_by_name("out")
pipeline.set_state(Gst.State.PLAYING)
for number in range(int(sys.argv[2]) + 1):
    buffer = sink.pull_sample().get_buffer()
    if number == 0:
        cpu = time.process_time()
    data = buffer.extract_dup(0, buffer.get_size())
    torch.from_numpy(numpy.frombuffer(data, numpy.uint8).reshape(%d, %d, 4))[540].float().mean().item()
print((time.process_time() - cpu) / int(sys.argv[2]) * 1e6)
pipeline.set_state(Gst.State.NULL)
""" % (HEIGHT, WIDTH)


def measure(code, place, sink):
    """Microseconds of CPU a frame in the receiving process."""
    sender = subprocess.Popen(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "pattern=black", "!", CAPS, "!",
                               *sink])
    try:
        if sink[0] == "shmsink":
            support.until("shmsink listens", lambda: os.path.exists(place))
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, place, str(FRAMES), CAPS], check=True,
                              capture_output=True, text=True, timeout=DEADLINE + FRAMES / RATE * 4)
        return float(done.stdout)
    finally:
        sender.kill()
        sender.wait(DEADLINE)


def main():
    folder = os.environ["XDG_RUNTIME_DIR"]
    ways = {"gpudirect.Receiver": (DIRECT, "cam", ["gpudirectsink", "address=cam"]),
            "shmsrc, appsink, numpy": (APPSINK, f"{folder}/shm", ["shmsink", f"socket-path={folder}/shm",
                                                                "wait-for-connection=false", "shm-size=300000000"])}
    figures = {name: [] for name in ways}
    for _ in range(RUNS):
        for name, way in ways.items():
            if way[2][0] == "shmsink" and os.path.exists(way[1]):
                os.unlink(way[1])
            figures[name].append(measure(*way))
            time.sleep(0.5)
    first = statistics.median(figures["gpudirect.Receiver"])
    print(f"{WIDTH} x {HEIGHT} RGBA at {RATE}/s, {FRAMES} frames, medians of {RUNS}, CPU of the receiving process:")
    for name, values in figures.items():
        print(f"  {name:24} {statistics.median(values):8.0f} us a frame   {statistics.median(values) / first:5.1f} x")


if __name__ == "__main__":
    main()
