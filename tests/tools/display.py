# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""An X server without a screen, whose events are waited for, whose pixels can be read, and keys pressed."""

import ctypes
import os
import pathlib
import select
import struct
import subprocess
import tempfile
import time

from tool import DEADLINE, check, wait_for

WIDTH, HEIGHT = 1024, 768
# Of X.h.
STRUCTURE, SUBSTRUCTURE, PROPERTIES, MAP_NOTIFY = 1 << 17, 1 << 19, 1 << 22, 19

x11 = ctypes.CDLL("libX11.so.6")
KINDS = {"u": ctypes.c_ulong, "l": ctypes.c_long, "i": ctypes.c_int, "p": ctypes.c_void_p}
for function, types in {"XDefaultRootWindow": "", "XSelectInput": "ul", "XConnectionNumber": "", "XPending": "",
                        "XNextEvent": "p", "XSync": "i", "XGetTextProperty": "upu", "XCloseDisplay": "",
                        "XInternAtom": "pi", "XSendEvent": "uilp", "XFlush": ""}.items():
    getattr(x11, function).argtypes = [ctypes.c_void_p, *(KINDS[letter] for letter in types)]
x11.XOpenDisplay.restype = ctypes.c_void_p
x11.XDefaultRootWindow.restype = x11.XInternAtom.restype = ctypes.c_ulong


class TextProperty(ctypes.Structure):
    _fields_ = [("value", ctypes.c_char_p), ("encoding", ctypes.c_ulong), ("format", ctypes.c_int),
                ("count", ctypes.c_ulong)]


# A window may end while it is asked for something: then it has no title.
keep_going = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda display, error: 0)
x11.XSetErrorHandler.argtypes = [type(keep_going)]
x11.XSetErrorHandler(keep_going)


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
        self.connection = x11.XOpenDisplay(None)
        check(self.connection, "Xvfb takes no connection")
        self.shown = []  # the windows that were shown, in this order
        self.expected = 0  # of these are known to the test
        x11.XSelectInput(self.connection, x11.XDefaultRootWindow(self.connection), SUBSTRUCTURE)
        x11.XSync(self.connection, 0)

    def end(self):
        x11.XCloseDisplay(self.connection)
        self.process.terminate()
        self.process.wait(DEADLINE)
        self.folder.cleanup()

    def read_events(self):
        event = (ctypes.c_ulong * 24)()
        while x11.XPending(self.connection):
            x11.XNextEvent(self.connection, event)
            if event[0] & 0xffffffff == MAP_NOTIFY:
                self.shown.append(event[5])

    def wait_for(self, what, condition):
        """The first true value of the condition, which is asked anew after each event."""
        end = time.monotonic() + DEADLINE
        self.read_events()
        while not (value := condition()):
            left = end - time.monotonic()
            # Xlib may have read an event already, together with the answer to what the condition asked.
            ready = x11.XPending(self.connection) or \
                select.select([x11.XConnectionNumber(self.connection)], [], [], max(left, 0))[0]
            check(ready and left > 0, f"waited {DEADLINE} s in vain for {what}")
            self.read_events()
        return value

    def forget_windows(self):
        """Those of programs that have ended."""
        x11.XSync(self.connection, 0)
        self.read_events()
        self.expected = len(self.shown)

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
    """The window that a program shows next, the only one: its place, its title, and keys for it."""

    def __init__(self, display):
        self.display = display
        display.wait_for("a window", lambda: len(display.shown) > display.expected)
        self.id = display.shown[display.expected]
        display.expected += 1
        x11.XSelectInput(display.connection, self.id, PROPERTIES | STRUCTURE)

    def ask(self, *words):
        return subprocess.run(["xdotool", *words], capture_output=True, text=True, timeout=DEADLINE).stdout

    def has_title(self, title):
        check(len(self.display.shown) == self.display.expected, "another window takes the place of the first one")
        connection, text = self.display.connection, TextProperty()
        x11.XGetTextProperty(connection, self.id, ctypes.byref(text), x11.XInternAtom(connection, b"_NET_WM_NAME", 0))
        return text.value == title.encode()

    def wait_for_title(self, title):
        self.display.wait_for(f"the title {title!r}", lambda: self.has_title(title))

    def press(self, key):
        self.ask("windowfocus", "--sync", str(self.id))
        self.ask("key", key)

    def look(self):
        """Where it is now."""
        found = dict(line.split("=") for line in self.ask("getwindowgeometry", "--shell", str(self.id)).split())
        self.x, self.y, self.width, self.height = (int(found[key]) for key in ("X", "Y", "WIDTH", "HEIGHT"))
        return self

    def close(self):
        """As a window manager does it when its button is pressed."""
        class Message(ctypes.Structure):
            _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                        ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message", ctypes.c_ulong),
                        ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("rest", ctypes.c_long * 12)]
        connection = self.display.connection
        atoms = [x11.XInternAtom(connection, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW")]
        message = Message(type=33, window=self.id, message=atoms[0], format=32)
        message.data[0] = atoms[1]
        x11.XSendEvent(connection, self.id, 0, 0, ctypes.byref(message))
        x11.XFlush(connection)
