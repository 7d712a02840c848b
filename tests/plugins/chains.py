# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Chains of gst-launch-1.0 processes, in a folder of their own, and the pictures that come out at the end."""

import contextlib
import ctypes
import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from verdict import check, skip, wait_for

DEADLINE = 60
PR_SET_PDEATHSIG = 1

# Noise, so that no two pictures and no two rows are alike.
LIVE = ["videotestsrc", "is-live=true", "pattern=snow", "!"]
ALL = ["videotestsrc", "num-buffers=24", "pattern=snow", "!"]


def need(elements):
    """Skips where an element is missing; `elements` maps each to the package that has it."""
    if not shutil.which("gst-launch-1.0"):
        skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
    for element, package in elements.items():
        if subprocess.run(["gst-inspect-1.0", element], capture_output=True, timeout=DEADLINE).returncode != 0:
            skip(f"GStreamer has no {element} here ({package})")


def caps(form, size):
    return f"video/x-raw,format={form},width={size[0]},height={size[1]},framerate=10/1"


def free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Chain:
    """Ends its processes, and prints what they said if the test fails."""

    def __init__(self):
        self.processes = []
        self.logs = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for name, log in self.logs.items() if exception[0] else ():
            print(f"--- {name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)

    def start(self, name, *words, program=("gst-launch-1.0", "-v")):
        log = self.logs[name] = pathlib.Path(f"{name}.log")
        with log.open("wb") as output:
            process = subprocess.Popen([*program, *words], stdout=output, stderr=subprocess.STDOUT,
                                       preexec_fn=die_with_parent)
        self.processes.append(process)
        return process

    def log(self, name):
        return self.logs[name].read_text(errors="replace")


def end_of(process, name):
    """A process that ends by itself, and well."""
    try:
        status = process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        check(False, f"{name} does not end")
    check(status == 0, f"{name} ends with {status}")


def round_up(number, unit):
    return (number + unit - 1) // unit * unit


def planes_of(form, width, height):
    """(bytes in a row, stride, rows) of each plane; what lies between the rows is undefined."""
    half = round_up(width, 2) // 2
    planes = {
        "NV12": [(width, 4, height), (2 * half, 4, height // 2)],
        "I420": [(width, 4, height), (half, 4, height // 2), (half, 4, height // 2)],
        "RGB": [(3 * width, 4, height)],
        "RGBA": [(4 * width, 4, height)],
        "v210": [(round_up(width, 6) // 6 * 16, 128, height)],
    }
    return [(row, round_up(row, unit), rows) for row, unit, rows in planes[form]]


class Pictures:
    """The test source's pictures, by which those are known that come out. A live source has more of them than a test
    has time for."""

    def __init__(self, form, size, count=4000):
        self.caps = caps(form, size)
        self.planes = planes_of(form, *size)
        subprocess.run(["gst-launch-1.0", "-q", "videotestsrc", f"num-buffers={count}", "pattern=snow", "!",
                        self.caps, "!", "filesink", "location=sent.raw"], check=True, timeout=DEADLINE)
        data = pathlib.Path("sent.raw").read_bytes()
        self.size = sum(stride * rows for _, stride, rows in self.planes)
        check(len(data) == count * self.size, f"{count} pictures of {self.size} bytes are {len(data)} bytes")
        self.numbers = {key: i for i, key in enumerate(self._keys(data))}
        check(len(self.numbers) == count, "two pictures are alike")

    def _keys(self, data):
        """A digest of each picture in the data, of which the last one may be incomplete."""
        keys = []
        for start in range(0, len(data) - self.size + 1, self.size):
            digest = hashlib.sha256()
            for row, stride, rows in self.planes:
                for i in range(rows):
                    digest.update(data[start + i * stride:start + i * stride + row])
                start += stride * rows
            keys.append(digest.digest())
        return keys

    def numbers_in(self, file):
        """The numbers of the pictures in a file, each of which is as it was sent."""
        data = pathlib.Path(file).read_bytes() if os.path.exists(file) else b""
        numbers = [self.numbers.get(key) for key in self._keys(data)]
        check(None not in numbers, f"{file}: picture {numbers.index(None) if None in numbers else 0} of "
                                   f"{len(numbers)} is not one of those sent")
        return numbers

    def check_all(self, file, count=24):
        numbers = self.numbers_in(file)
        check(numbers == list(range(count)), f"{file}: of {count} pictures came {numbers}")

    def wait_for(self, file, count):
        """Waits for pictures more than were there at the call."""
        def there():
            return os.path.getsize(file) // self.size if os.path.exists(file) else 0
        before = there()
        wait_for(f"{count} pictures in {file}", lambda: there() >= before + count)

    def check_order(self, file, starts=1):
        """Of that many starts of the source."""
        numbers = self.numbers_in(file)
        back = [i for i in range(1, len(numbers)) if numbers[i] <= numbers[i - 1]]
        check(len(back) < starts, f"{file}: pictures in another order, of {starts} starts: {numbers}")


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_RUNTIME_DIR"] = home
        os.chdir(home)
        yield
        os.chdir("/")


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE)
