# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Lip sync over each transport: a flash and a beep at the same time, once a second, sent in real time by one process
and recorded by another. How far they are apart is read back from the recording, by ffmpeg. Also by hand, and beside
other elements:

    lipsync_test.py [map | programme | tcp | unixfd]..."""

import os
import re
import shutil
import statistics
import subprocess
import sys

from chains import DEADLINE, Chain, check, end_of, folder, free_port, need, skip, wait_for

RATE, FPS, SIDE = 48000, 25, 32
SECONDS, FIRST = 8, 12  # the first event is at picture 12, and each other one a second later
MOST = 0.002  # s: Matroska's times are in ms
RECORDER = ["matroskamux", "name=file", "!", "filesink", "location=recorded.mkv"]


def ours(address, *more):
    """The words of a sink, and of a source, for each stream."""
    return ([["gpudirectsink", f"address={address}{stream}", "wait-for-connection=true", "slow-receiver=block", *more]
             for stream in ("", "/audio")],
            [["gpudirectsrc", f"address={address}{stream}"] for stream in ("", "/audio")])


def programme():
    sinks, _ = ours("lips")
    return sinks, [["gpudirectprogramsrc", "address=lips", "name=programme", "programme.src"], ["programme.src_audio"]]


def unixfd():
    return ([["unixfdsink", f"socket-path={name}", "wait-for-connection=true"] for name in ("flash", "beep")],
            [["unixfdsrc", f"socket-path={name}"] for name in ("flash", "beep")])


TRANSPORTS = {
    "map": lambda: ours("lips"),
    "programme": programme,
    "tcp": lambda: ours(f"tcp://127.0.0.1:{free_port()}/lips", "allow-unauthenticated=true", "announce=false"),
    "unixfd": unixfd,
}


def make_event_files():
    """Pictures that are black, but for one a second, and sound that is silent, but while that one is shown."""
    flashes = {FIRST + FPS * second for second in range(SECONDS)}
    block = RATE // FPS
    with open("pictures", "wb") as pictures, open("sound", "wb") as sound:
        for number in range(FPS * SECONDS):
            pictures.write(bytes([235 if number in flashes else 16]) * SIDE * SIDE)
            sound.write(b"\x00\x40\x00\xc0" * (block // 2) if number in flashes else bytes(2 * block))


def apart(file):
    """How much later each beep is than its flash, in seconds."""
    said = subprocess.run(["ffmpeg", "-hide_banner", "-nostats", "-i", file, "-vf", "blackdetect=d=0.1:pix_th=0.5",
                           "-af", "silencedetect=n=-20dB:d=0.1", "-f", "null", "-"], capture_output=True, text=True,
                          timeout=DEADLINE, stdin=subprocess.DEVNULL).stderr
    flashes = [float(time) for time in re.findall(r"black_end:([\d.]+)", said)]
    beeps = [float(time) for time in re.findall(r"silence_end: ([\d.]+)", said)]
    # What ends with the file is no event.
    check(len(flashes) >= SECONDS and len(beeps) >= SECONDS, f"of {SECONDS} events came {flashes} and {beeps}:\n{said}")
    return [beep - flash for flash, beep in zip(flashes[:SECONDS], beeps[:SECONDS])]


def measure(name):
    sinks, sources = TRANSPORTS[name]()
    with Chain() as chain:
        # Converted, so that unixfdsink gets memory of its own allocator.
        sender = chain.start(
            f"{name}-sender", "filesrc", "location=pictures", f"blocksize={SIDE * SIDE}", "!", "rawvideoparse",
            "format=gray8", f"width={SIDE}", f"height={SIDE}", f"framerate={FPS}/1", "!",
            "videoconvert", "!", "video/x-raw,format=I420", "!", *sinks[0],
            "filesrc", "location=sound", f"blocksize={2 * 1024}", "!", "rawaudioparse", "pcm-format=s16le",
            f"sample-rate={RATE}", "num-channels=1", "!",
            "audioconvert", "!", "audio/x-raw,format=F32LE", "!", *sinks[1])
        if name == "unixfd":
            wait_for("unixfdsink's sockets", lambda: os.path.exists("flash") and os.path.exists("beep"))
        recorder = chain.start(f"{name}-recorder", *RECORDER, *sources[0], "!", "queue", "!", "file.video_0",
                               *sources[1], "!", "queue", "!", "file.audio_0")
        end_of(sender, "the sender")
        end_of(recorder, "the recorder")
        found = apart("recorded.mkv")
    median = statistics.median(found)
    most = max(found, key=abs)
    print(f"{name}: {len(found)} beeps are {1000 * median:+.2f} ms after their flashes, at most {1000 * most:+.2f} ms",
          flush=True)
    if name != "unixfd":  # beside which ours are measured
        check(abs(most) <= MOST, f"{name}: more than {1000 * MOST:.0f} ms")


def main():
    names = sys.argv[1:] or list(TRANSPORTS)
    if not shutil.which("ffmpeg"):
        skip("ffmpeg is not installed, which reads the recording (Debian: apt install ffmpeg)")
    need({"gpudirectsink": "build the plugin", "rawvideoparse": "gstreamer1.0-plugins-base",
          "matroskamux": "gstreamer1.0-plugins-good"})
    with folder():
        make_event_files()
        for name in names:
            if name == "unixfd" and subprocess.run(["gst-inspect-1.0", "unixfdsink"], capture_output=True).returncode:
                print("unixfd: not measured: GStreamer has no unixfdsink here (plugins-bad has it from 1.24 on)")
                continue
            measure(name)


if __name__ == "__main__":
    main()
