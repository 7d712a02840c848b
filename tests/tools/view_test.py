# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-view: what was sent stands in the file of --png and in the window, in formats that SDL has and in others;
the window outlives its sender, and costs other receivers no frame, even when it is stopped; it ends in every way."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from display import Display, Window
from tool import DEADLINE, INFO, check, run, run_json, skip, wait_for

VIEW = os.environ["GPUDIRECT_VIEW"]
SIZE = (320, 180)
# Of 255: SDL, its drivers and GStreamer round differently.
NEAR = 6

for program in ("gst-launch-1.0", "Xvfb", "xdotool"):
    if not shutil.which(program):
        skip(f"{program} is not installed (gstreamer1.0-tools, xvfb, xdotool)")

home = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = home.name
os.chdir(home.name)
started = []


def launch(*words):
    process = subprocess.Popen(["gst-launch-1.0", "-q", *words], stdout=subprocess.DEVNULL)
    started.append(process)
    return process


def caps(form, size=SIZE, more=""):
    return f"video/x-raw,format={form},width={size[0]},height={size[1]},framerate=25/1{more}"


def send(form, size=SIZE, address="cam1", more="", sink=()):
    return launch("videotestsrc", "is-live=true", "pattern=smpte75", "!", caps(form, size, more), "!", "gpudirectsink",
                  f"address={address}", *sink)


def view(*words, status=None):
    if status is not None:
        return run(VIEW, *words, status=status)
    process = subprocess.Popen([VIEW, *words])
    started.append(process)
    return process


def end(process, how=signal.SIGINT):
    process.send_signal(how)
    process.wait(DEADLINE)


def rows_of(data, size):
    return [list(zip(*(data[3 * size[0] * y + c:3 * size[0] * (y + 1):3] for c in range(3)))) for y in range(size[1])]


def sent(form, size=SIZE, more=""):
    """The pattern's pixels after GStreamer's own conversions."""
    subprocess.run(["gst-launch-1.0", "-q", "videotestsrc", "num-buffers=1", "pattern=smpte75", "!",
                    caps(form, size, more), "!", "videoconvert", "!", "video/x-raw,format=RGB", "!", "filesink",
                    "location=sent.rgb"], check=True, timeout=DEADLINE)
    return rows_of(pathlib.Path("sent.rgb").read_bytes(), size)


def saved(file, size=SIZE):
    """A PNG file's pixels, by a decoder that is not ours."""
    subprocess.run(["gst-launch-1.0", "-q", "filesrc", f"location={file}", "!", "pngdec", "!", "videoconvert", "!",
                    "video/x-raw,format=RGB", "!", "filesink", "location=saved.rgb"], check=True, timeout=DEADLINE)
    return rows_of(pathlib.Path("saved.rgb").read_bytes(), size)


def noisy(x, y, size):
    """The pattern's corner of random grey."""
    return x >= size[0] * 3 // 4 - 4 and y >= size[1] * 3 // 4 - 4


def differences(pixels, expected, near=NEAR):
    """Points that differ, of those whose neighbours have the same colour."""
    size = len(expected[0]), len(expected)
    wrong = []
    for y in range(2, size[1] - 2, 3):
        for x in range(2, size[0] - 2, 5):
            here = expected[y][x]
            flat = all(max(abs(a - b) for a, b in zip(here, expected[y + v][x + u])) < 8
                       for v in (-2, 2) for u in (-2, 2))
            if flat and not noisy(x, y, size) and max(abs(a - b) for a, b in zip(pixels[y][x], here)) > near:
                wrong.append((x, y, pixels[y][x], here))
    return wrong


def check_files():
    """What comes without a display."""
    os.environ.pop("DISPLAY", None)
    for form in ("NV12", "v210", "ARGB"):
        sender = send(form)
        view("--png", "one.png", "--timeout", "60", "cam1", status=0)
        wrong = differences(saved("one.png"), sent(form), near=2)
        check(not wrong, f"{form} in a file: {len(wrong)} points differ, such as {wrong[:3]}")
        if form == "NV12":
            err = view("--png", "/nowhere/one.png", "cam1", status=1)[1]
            check("/nowhere/one.png" in err and "No such file" in err, f"{err!r}")
            err = view("--png", "/dev/full", "cam1", status=1)[1]
            check("No space left" in err and os.path.exists("/dev/full"), f"{err!r}")
            err = view("cam1", status=1)[1]
            check("no display" in err and "--png" in err, f"without a display: {err!r}")
        end(sender)
    # From a device's memory, by a staged route.
    sender = send("NV12", sink=("device=opencl:0",))
    view("--png", "gpu.png", "--timeout", "60", "cam1", status=0)
    wrong = differences(saved("gpu.png"), sent("NV12"), near=2)
    check(not wrong, f"from a device: {len(wrong)} points differ, such as {wrong[:3]}")
    end(sender)


def check_refusals():
    err = view("--png", "never.png", "--timeout", "0.2", "cam1", status=3)[1]
    check("no sender" in err and not os.path.exists("never.png"), f"without a sender: {err!r}")
    for words, text in (([], "one argument"), (["a", "b"], "one argument"), (["--timeout", "x", "a"], "seconds"),
                        (["--timeout", "5", "a"], "--png"), (["--full-screen", "--png", "a", "b"], "--full-screen"),
                        (["--start-times", "--png", "a", "b"], "--start-times"),
                        (["--tls-certificate", "/c", "a"], "tls-certificate is for addresses of other hosts"),
                        (["--tls-key", "/k", "a"], "tls-key is for"), (["--tls-ca", "/a", "a"], "tls-ca is for"),
                        (["nonsense://x"], "is not an address"), (["--nonsense", "a"], "nonsense")):
        err = view(*words, status=2)[1]
        check(text in err and err.startswith("gpudirect-view: "), f"{words}: {err!r}")
    check("Keys:" in view("--help", status=0)[0], "the help")
    sender = launch("audiotestsrc", "is-live=true", "!", "gpudirectsink", "address=cam1/audio")
    err = view("--png", "never.png", "--timeout", "60", "cam1/audio", status=1)[1]
    check("carries no pictures" in err and not os.path.exists("never.png"), f"sound: {err!r}")
    end(sender)
    waiting = view("--png", "never.png", "--timeout", "60", "cam1")
    time.sleep(0.2)
    end(waiting)
    check(waiting.returncode == -signal.SIGINT and not os.path.exists("never.png"), "Ctrl-C while it waits")


def check_picture(display, window, form, size, more=""):
    """The window shows what is sent, as soon as the driver has drawn it."""
    expected = sent(form, size, more)

    def look():
        window.look()
        if (window.width, window.height) != size:
            return False
        return not differences(display.pixels(window), expected)
    wait_for(f"a window with the pattern in {form}", look, DEADLINE)


def check_window(display):
    viewer = view("cam1")
    window = Window(display)
    window.wait_for_title("cam1 (waiting) - gpudirect-view")
    wait_for("the text", lambda: any((255, 255, 255) in row for row in display.pixels(window.look())), DEADLINE)
    sender = send("NV12")
    window.wait_for_title("cam1 - gpudirect-view")
    wait_for("the window's size", lambda: (window.look().width, window.height) == SIZE, DEADLINE)
    wait_for("the overlay", lambda: differences(display.pixels(window.look()), sent("NV12")), DEADLINE)
    window.press("i")
    check_picture(display, window, "NV12", SIZE)
    window.press("s")
    shots = wait_for("a screenshot", lambda: list(pathlib.Path().glob("cam1-*.png")), DEADLINE)
    wait_for("the message", lambda: differences(display.pixels(window.look()), sent("NV12")), DEADLINE)
    wrong = differences(saved(shots[0]), sent("NV12"), near=2)
    check(not wrong, f"the screenshot: {len(wrong)} points differ, such as {wrong[:3]}")

    # Killed: the last picture is darkened. The next sender has another format.
    end(sender, signal.SIGKILL)
    window.wait_for_title("cam1 (waiting) - gpudirect-view")
    for form, more in (("UYVY", ",colorimetry=bt709"), ("v210", ""), ("BGRx", "")):
        sender = send(form, more=more)
        window.wait_for_title("cam1 - gpudirect-view")
        check_picture(display, window, form, SIZE, more)
        end(sender)
        window.wait_for_title("cam1 (waiting) - gpudirect-view")

    # A shape that the window does not have: bars at the left and right.
    sender = send("RGB", (60, 60))
    window.wait_for_title("cam1 - gpudirect-view")

    def in_the_middle():
        rows = display.pixels(window.look())
        return [rows[90][x] for x in (0, 60, 260, 319)] == [(0, 0, 0)] * 4 and rows[90][80] != (0, 0, 0)
    wait_for("black bars beside a square picture", in_the_middle, DEADLINE)
    end(sender)
    window.press("q")
    check(viewer.wait(DEADLINE) == 0, f"q ends with {viewer.returncode}")


def check_start(display):
    """Each stage of a start is in the table, and they add up to a start's time."""
    err = view("--start-times", "nonsense://x", status=2)[1]
    check("is not an address" in err and err.count("\n") == 1, f"a start that fails: {err!r}")
    err = view("--start-times", "--timeout", "0.2", "cam1", status=3)[1]
    check("no sender" in err and "--timeout" in err and err.count("\n") == 1, f"without a sender: {err!r}")
    sender = send("NV12")
    lines = view("--start-times", "--timeout", "60", "cam1", status=0)[0].splitlines()
    check("medians of 5" in lines[0] and len(lines) == 11, f"the table is {lines}")
    times = [float(line.split()[-1]) for line in lines[1:]]
    check(min(times) >= 0 and times[0] > 0 and times[-1] >= max(times[:-1]), f"the stages take {times} ms")
    end(sender)
    display.forget_windows()


def link_of(process):
    for channel in run_json(INFO, "--channels")["channels"]:
        for link in channel.get("receivers", []):
            if link["pid"] == process.pid:
                return link
    return None


def check_stopped(display):
    """A sender that waits for slow receivers does not wait for this one."""
    sender = launch("videotestsrc", "is-live=true", "!", "video/x-raw,format=NV12,width=320,height=180,framerate=100/1",
                    "!", "gpudirectsink", "address=cam1", "slow-receiver=block")
    other = launch("gpudirectsrc", "address=cam1", "!", "fakesink")
    viewer = view("cam1")
    for process in (other, viewer):
        wait_for("a link", lambda: (link_of(process) or {}).get("frames"), DEADLINE)
    viewer.send_signal(signal.SIGSTOP)
    before = link_of(other)["frames"]
    wait_for("200 frames", lambda: link_of(other)["frames"] >= before + 200, DEADLINE)
    check(link_of(other)["dropped"] == 0, f"a stopped viewer costs others frames: {link_of(other)}")
    viewer.send_signal(signal.SIGCONT)
    Window(display).close()
    check(viewer.wait(DEADLINE) == 0, f"a closed window ends with {viewer.returncode}")
    viewer = view("cam1")
    Window(display)
    end(viewer)
    check(viewer.returncode == 0, f"Ctrl-C ends with {viewer.returncode}")
    end(other)
    end(sender)


try:
    check_refusals()
    check_files()
    display = Display()
    try:
        check_window(display)
        check_start(display)
        check_stopped(display)
        viewer = view("cam1")
        Window(display)
    finally:
        display.end()
    check(viewer.wait(DEADLINE) != 0, "the display's end is a success")
finally:
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()
sys.exit(0)
