# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""An X server without a screen, whose pixels can be read, and keys pressed."""

import ctypes
import os
import pathlib
import struct
import subprocess
import tempfile

from tool import DEADLINE, check, wait_for

WIDTH, HEIGHT = 1024, 768


class Display:
    """The X server; DISPLAY names it while it runs."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        reading, writing = os.pipe()
        self.process = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{WIDTH}x{HEIGHT}x24", "-nolisten", "tcp", "-noreset",
             "-fbdir", self.folder.name], pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        check(number, "Xvfb does not start")
        os.environ["DISPLAY"] = f":{number}"
        os.environ["SDL_VIDEODRIVER"] = "x11"

    def end(self):
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.folder.cleanup()

    def pixels(self, window):
        """A window's rows of (red, green, blue), from the screen in the format of xwd."""
        data = pathlib.Path(self.folder.name, "Xvfb_screen0").read_bytes()
        head = struct.unpack(">25I", data[:100])
        header, width, height, bits, stride, colors = head[0], head[4], head[5], head[11], head[12], head[19]
        check((width, height, bits) == (WIDTH, HEIGHT, 32), f"a screen of {width} x {height} x {bits}")
        start = header + 12 * colors
        rows = []
        for y in range(window.y, window.y + window.height):
            row = data[start + y * stride + 4 * window.x:start + y * stride + 4 * (window.x + window.width)]
            rows.append(list(zip(row[2::4], row[1::4], row[0::4])))
        return rows


class Window:
    """The window of a process: its place, its title, and keys for it."""

    def __init__(self, process):
        self.id = wait_for("a window", lambda: subprocess.run(
            ["xdotool", "search", "--onlyvisible", "--pid", str(process.pid)], capture_output=True,
            text=True).stdout.strip(), DEADLINE)

    def ask(self, *words):
        return subprocess.run(["xdotool", *words], capture_output=True, text=True, timeout=DEADLINE).stdout

    def title(self):
        return self.ask("getwindowname", self.id).strip()

    def wait_for_title(self, title):
        wait_for(f"the title {title!r}", lambda: self.title() == title, DEADLINE)

    def press(self, key):
        self.ask("windowfocus", "--sync", self.id)
        self.ask("key", key)

    def look(self):
        """Where it is now."""
        found = dict(line.split("=") for line in self.ask("getwindowgeometry", "--shell", self.id).split())
        self.x, self.y, self.width, self.height = (int(found[key]) for key in ("X", "Y", "WIDTH", "HEIGHT"))
        return self

    def close(self):
        """As a window manager does it when its button is pressed."""
        class Message(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message", ctypes.c_ulong),
                        ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("rest", ctypes.c_long * 12)]
        x11 = ctypes.CDLL("libX11.so.6")
        x11.XOpenDisplay.restype = ctypes.c_void_p
        x11.XInternAtom.restype = ctypes.c_ulong
        display = ctypes.c_void_p(x11.XOpenDisplay(None))
        atoms = [x11.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW")]
        message = Message(type=33, window=int(self.id), message=atoms[0], format=32)
        message.data[0] = atoms[1]
        x11.XSendEvent(display, ctypes.c_ulong(int(self.id)), 0, ctypes.c_long(0), ctypes.byref(message))
        x11.XCloseDisplay(display)
