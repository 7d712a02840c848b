# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-monitor --tui on a terminal: channels and receivers, their events, names that are no text, other sizes,
keys; and the terminal is left as it was, by q and by Ctrl-C."""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

from monitors import MONITOR, Pipelines
from tool import DEADLINE, check, skip

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")

runtime = tempfile.TemporaryDirectory()
os.environ |= {"XDG_RUNTIME_DIR": runtime.name, "LC_ALL": "C.UTF-8", "TERM": "xterm"}
NAME = "a\x1b[2Jb\u202e"  # of a receiver: it would clear the screen, and turn the line round


class Terminal:
    def __init__(self, rows=30, columns=100):
        self.outside, self.inside = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.inside)
        self.process = subprocess.Popen([MONITOR, "--tui"], stdin=self.inside, stdout=self.inside,
                                        stderr=subprocess.PIPE, start_new_session=True)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.1):
        if select.select([self.outside], [], [], seconds)[0]:
            self.text += os.read(self.outside, 65536).decode(errors="replace")

    def wait_for(self, words):
        """In what was written, without the commands for the terminal."""
        end = time.monotonic() + DEADLINE
        while not re.search(words, re.sub(r"\x1b[\[(][0-9;?]*[A-Za-z]", "", self.text)):
            check(time.monotonic() < end, f"waited for {words!r} in vain; there is {self.text[-3000:]!r}")
            self.read()

    def press(self, keys):
        """And Ctrl-L, after which all is drawn, not only what differs."""
        self.text = ""
        os.write(self.outside, keys.encode() + b"\f")

    def end(self, status=0):
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        error = self.process.stderr.read()
        check(self.process.returncode == status and not error, f"it ends with {self.process.returncode}: {error}")
        check(termios.tcgetattr(self.inside) == self.before, "the terminal is left in another mode")
        self.close()

    def hang_up(self):
        """The terminal's window is closed: it ends without a complaint."""
        os.close(self.outside)
        self.outside = None
        status, error = self.process.wait(DEADLINE), self.process.stderr.read()
        check(status == 0 and not error, f"it ends with {status}: {error}")
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        for fd in {self.outside, self.inside} - {None}:
            os.close(fd)


with Pipelines() as pipelines:
    terminal = Terminal()
    try:
        terminal.wait_for("0 channels, 0 receivers")
        terminal.wait_for("No channel is sent here")
        strange = pathlib.Path(runtime.name) / NAME
        strange.symlink_to(shutil.which("gst-launch-1.0"))
        sender = pipelines.send("cam1")
        receiver = pipelines.receive("cam1", program=strange)
        terminal.wait_for(r"cam1  OK  [\d.]+/s  UYVY 640×360 at 50")
        terminal.wait_for("map to host")
        terminal.wait_for("p99 ≤ ")
        terminal.wait_for("connects: process")
        check("\x1b[2Jb" not in terminal.text and "\u202e" not in terminal.text, "a name reaches the terminal raw")
        check(re.search(r"a.?\[2Jb", terminal.text), f"the name of the receiver is {terminal.text[-500:]!r}")
        receiver.send_signal(signal.SIGSTOP)
        terminal.wait_for("loses frames")
        receiver.send_signal(signal.SIGCONT)
        terminal.press("e")
        terminal.wait_for("e channels")
        terminal.press("e\x1b[B\x1b[6~\x1b[5~\x1b[Anonsense\x00\x7f")
        terminal.wait_for("e events")
        for rows, columns in ((5, 20), (1, 1), (60, 200), (24, 80)):
            terminal.resize(rows, columns)
            os.kill(terminal.process.pid, signal.SIGWINCH)
            for _ in range(5):
                terminal.read(0.05)
        sender.send_signal(signal.SIGSTOP)
        terminal.wait_for("No answer")
        sender.send_signal(signal.SIGCONT)
        sender.kill()
        terminal.wait_for(r"Died  gone since \d\d:\d\d:\d\d: the sender has died")
        terminal.wait_for("waits since")
        terminal.wait_for("1 trouble")
        terminal.resize(24, 40)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.press("")
        terminal.wait_for("cam1  Died  gone since [^\n]*…")
        terminal.resize(24, 80)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        terminal.press("d")
        terminal.wait_for("cam1  No sender")
        terminal.press("q")
        terminal.end()
        for sent in (signal.SIGINT, signal.SIGTERM):
            terminal = Terminal()
            terminal.wait_for("gpudirect-monitor on")
            os.kill(terminal.process.pid, sent)
            terminal.end()
        terminal = Terminal()
        terminal.wait_for("gpudirect-monitor on")
        terminal.hang_up()
    finally:
        terminal.process.kill()
        terminal.process.wait()
