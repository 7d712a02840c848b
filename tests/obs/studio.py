# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the tests of OBS's plugin share: OBS itself on an X server without a screen, driven by obs-websocket; a
programme with a number in its pixels, and a flash with a beep each second; and what a recording has of both."""

import base64
import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

DEADLINE = 25
WIDTH, HEIGHT, FPS, RATE = 640, 360, 25, 48000
MAIN_WINDOW = "Profile: Test"
CELL, BITS = 32, 16  # the number's digits, from the left; below them is the flash, and below that are colours


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def check(holds, text):
    if not holds:
        sys.exit(f"failed: {text}")


def until(what, holds, deadline=DEADLINE, why=lambda: ""):
    """The first true value of a condition. `why` adds to the message what is there instead."""
    end = time.monotonic() + deadline
    while not (value := holds()):
        check(time.monotonic() < end, f"{what}: not within {deadline} s {why()}")
        time.sleep(0.02)
    return value


for program, package in {"obs": "obs-studio", "Xvfb": "xvfb", "dbus-run-session": "dbus-daemon",
                         "ffmpeg": "ffmpeg", "xdotool": "xdotool"}.items():
    if not shutil.which(program):
        skip(f"{program} is missing: install it (Debian: apt install {package})")
try:
    numpy = importlib.import_module("numpy")
    websocket = importlib.import_module("websocket")
except ImportError as error:
    skip(f"{error}: install it (Debian: apt install python3-numpy python3-websocket)")

# The channels of this test alone, also in processes that it starts.
folder = pathlib.Path(os.environ.get("GPUD_OBS_FOLDER") or tempfile.mkdtemp(prefix="gpud-obs-"))
os.environ["GPUD_OBS_FOLDER"] = os.environ["XDG_RUNTIME_DIR"] = str(folder)
import gpudirect  # noqa: E402


def xdotool(*words):
    return subprocess.run(["xdotool", *words], capture_output=True, text=True, timeout=DEADLINE).stdout.split()


def close_window(name):
    """As its button does it. OBS 29 handles SIGINT wherever it is, and may crash by that."""
    class Message(ctypes.Structure):
        _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("send_event", ctypes.c_int),
                    ("display", ctypes.c_void_p), ("window", ctypes.c_ulong), ("message", ctypes.c_ulong),
                    ("format", ctypes.c_int), ("data", ctypes.c_long * 5), ("rest", ctypes.c_long * 12)]
    window = int(xdotool("search", "--name", name)[0])
    x11 = ctypes.CDLL("libX11.so.6")
    x11.XOpenDisplay.restype, x11.XInternAtom.restype = ctypes.c_void_p, ctypes.c_ulong
    screen = ctypes.c_void_p(x11.XOpenDisplay(None))
    message = Message(type=33, window=window, message=x11.XInternAtom(screen, b"WM_PROTOCOLS", 0), format=32)
    message.data[0] = x11.XInternAtom(screen, b"WM_DELETE_WINDOW", 0)
    x11.XSendEvent(screen, ctypes.c_ulong(window), 0, ctypes.c_long(0), ctypes.byref(message))
    x11.XCloseDisplay(screen)


def without_websocket():
    """What OBS is started by so that it cannot load obs-websocket: its file is empty there."""
    words = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else []), "sh", "-c",
             'for file in /usr/lib/*/obs-plugins/obs-websocket.so; do mount --bind /dev/null "$file" || exit; done; '
             'exec "$@"', "sh"]
    made = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=DEADLINE)
    if made.returncode:
        skip(f"no mount namespace can be made here: {made.stderr.strip()}")
    return words


class Studio:
    """OBS, with an empty scene "One" of 640x360 at 25 pictures a second, recorded without loss; with the output's
    settings. With remote=False it lacks obs-websocket, and with that the scene and whatever asks OBS."""

    def __init__(self, color="", output=None, remote=True):
        self.remote = remote
        self.config = folder / "config" / "obs-studio"
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            self.port = any_port.getsockname()[1]
        self.write("basic/profiles/Test/basic.ini",
                   f"[General]\nName=Test\n[Output]\nMode=Simple\n[SimpleOutput]\nFilePath={folder}\n"
                   "RecFormat=mkv\nRecFormat2=mkv\nRecQuality=Small\nRecEncoder=x264\n"
                   f"[Video]\nBaseCX={WIDTH}\nBaseCY={HEIGHT}\nOutputCX={WIDTH}\nOutputCY={HEIGHT}\n"
                   f"FPSType=2\nFPSNum={FPS}\nFPSDen=1\n{color}\n[Audio]\nSampleRate={RATE}\n")
        settings = {"alerts_enabled": False, "auth_required": False, "first_load": False, "server_enabled": True,
                    "server_port": self.port}
        self.write("plugin_config/obs-websocket/config.json", json.dumps(settings))
        if output:
            self.write("plugin_config/gpudirect-obs/output.json", json.dumps(output))
        self.write("global.ini", "[General]\nFirstRun=true\nEnableAutoUpdates=false\n"
                   "[BasicWindow]\nPreviewEnabled=false\n"  # drawing it costs more than all the rest
                   "[OBSWebSocket]\nFirstLoad=false\nServerEnabled=true\nAlertsEnabled=false\nAuthRequired=false\n"
                   f"ServerPort={self.port}\n")
        shutil.copy(self.config / "global.ini", self.config / "user.ini")  # OBS 31's
        plugin = self.config / "plugins" / "gpudirect-obs"
        (plugin / "bin").mkdir(parents=True)
        (plugin / "bin" / "64bit").symlink_to(pathlib.Path(os.environ["GPUD_OBS_PLUGIN"]).parent)
        (plugin / "data").symlink_to(os.environ["GPUD_OBS_DATA"])

    def write(self, name, text):
        path = self.config / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def __enter__(self):
        reading, writing = os.pipe()
        self.screen = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
            pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        check(number, "Xvfb does not start")
        os.environ["DISPLAY"] = f":{number}"
        self.log = folder / "obs.log"
        command = ["dbus-run-session", "--", "obs", "--multi", "--profile", "Test", "--collection", "Test",
                   "--disable-updater", "--disable-missing-files-check"]
        if not self.remote:
            command = [*without_websocket(), *command]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=os.environ | {"XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder),
                                  "LIBGL_ALWAYS_SOFTWARE": "1", "QT_QPA_PLATFORM": "xcb", "LC_ALL": "C.UTF-8"})
        self.number = 0
        until("OBS", lambda: "Startup complete" in self.log.read_text() and (
            self.connect() if self.remote else xdotool("search", "--name", MAIN_WINDOW)))
        check("[gpudirect" in self.log.read_text() or "gpudirect-obs" in self.log.read_text(),
              f"OBS has not loaded the plugin:\n{self.log.read_text()}")
        self.pid = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and self.is_obs(pid))
        if self.remote:
            # While it loads its scenes OBS refuses requests.
            until("OBS's scenes", lambda: "error" not in self.ask("GetSceneList", may_fail=True))
            self.ask("CreateScene", sceneName="One")
            self.ask("SetCurrentProgramScene", sceneName="One")
        return self

    def is_obs(self, pid):
        with contextlib.suppress(OSError):
            return (f"DISPLAY={os.environ['DISPLAY']}\0" in pathlib.Path("/proc", pid, "environ").read_text()
                    and pathlib.Path("/proc", pid, "comm").read_text().strip() == "obs")
        return False

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                close_window(MAIN_WINDOW)
                self.process.wait(DEADLINE)
        finally:
            log = self.log.read_text()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.process.wait(DEADLINE)
            self.screen.terminate()
            self.screen.wait(DEADLINE)
            shutil.rmtree(folder, ignore_errors=True)
            if kind is not None or self.process.returncode != 0:
                print(log[-6000:], flush=True)
        if kind is None:
            check(self.process.returncode == 0, f"OBS ends with {self.process.returncode}")
            leaks = re.search(r"Number of memory leaks: (\d+)", log)
            check(leaks and leaks[1] == "0", f"OBS has lost memory, or did not end in order:\n{log[-3000:]}")

    def connect(self):
        check(self.process.poll() is None, f"OBS has ended:\n{self.log.read_text()[-3000:]}")
        try:
            self.socket = websocket.create_connection(f"ws://127.0.0.1:{self.port}", timeout=DEADLINE)
        except OSError:
            return False
        json.loads(self.socket.recv())
        self.socket.send(json.dumps({"op": 1, "d": {"rpcVersion": 1, "eventSubscriptions": 0}}))
        return json.loads(self.socket.recv())["op"] == 2

    def ask(self, request, may_fail=False, **data):
        self.number += 1
        self.socket.send(json.dumps({"op": 6, "d": {"requestType": request, "requestId": str(self.number),
                                                    "requestData": data}}))
        while True:
            answer = json.loads(self.socket.recv())["d"]
            if answer.get("requestId") == str(self.number):
                break
        status = answer["requestStatus"]
        check(may_fail or status["result"], f"{request} {data}: {status}")
        return answer.get("responseData") or {} if status["result"] else {"error": status}

    def vendor(self, request, **data):
        data = {"requestData": data} if data else {}
        answer = self.ask("CallVendorRequest", vendorName="gpudirect", requestType=request, **data)
        return answer["responseData"]

    def add_source(self, name="programme", scene="One", **settings):
        self.ask("CreateInput", sceneName=scene, inputName=name, inputKind="gpudirect_source", inputSettings=settings)

    def pixels(self, source, width=WIDTH):
        """What a source shows now: rows of columns of R, G, B, A; None if it shows nothing."""
        answer = self.ask("GetSourceScreenshot", may_fail=True, sourceName=source, imageFormat="png")
        if "error" in answer:
            return None
        raw = subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-f", "rawvideo", "-pix_fmt", "rgba", "-"],
                             input=base64.b64decode(answer["imageData"].split(",", 1)[1]), capture_output=True,
                             timeout=DEADLINE, check=True).stdout
        pixels = numpy.frombuffer(raw, numpy.uint8).reshape(-1, width, 4) if len(raw) == 4 * width * HEIGHT else None
        return pixels

    def rendered(self):
        """How many pictures OBS has rendered: fewer than it had time for, where other programs take the processor."""
        stats = self.ask("GetStats")
        return stats["renderTotalFrames"] - stats["renderSkippedFrames"]

    def resources(self):
        """How many descriptors and threads OBS has."""
        return [len(os.listdir(f"/proc/{self.pid}/{what}")) for what in ("fd", "task")]

    def shows(self, source):
        """The number that a source shows; None if there is none."""
        pixels = self.pixels(source)
        return None if pixels is None else read_number(pixels[:, :, 1])

    @contextlib.contextmanager
    def recording(self):
        """Records what happens in the block, and gives a Recording when it ends."""
        result = Recording()
        self.ask("StartRecord")
        until("a recording", lambda: self.ask("GetRecordStatus")["outputActive"])
        yield result
        path = self.ask("StopRecord")["outputPath"]
        until("the end of the recording", lambda: not self.ask("GetRecordStatus")["outputActive"])
        result.read(path)


class Recording:
    """Luma, numbers, and the times of flashes and beeps, of a file."""

    def read(self, path):
        def decode(*words):
            return subprocess.run(["ffmpeg", "-v", "error", "-i", path, *words, "-"], capture_output=True, check=True,
                                  timeout=3 * DEADLINE, stdin=subprocess.DEVNULL).stdout
        picture = decode("-vf", f"fps={FPS}:start_time=0", "-f", "rawvideo", "-pix_fmt", "yuv420p")
        picture = numpy.frombuffer(picture, numpy.uint8)
        picture = picture.reshape(-1, WIDTH * HEIGHT * 3 // 2)
        self.luma = picture[:, :WIDTH * HEIGHT].reshape(-1, HEIGHT, WIDTH)
        self.chroma = picture[:, WIDTH * HEIGHT:].reshape(-1, 2, HEIGHT // 2, WIDTH // 2)
        self.numbers = [read_number(luma) for luma in self.luma]
        sound = decode("-af", "aresample=async=1:first_pts=0", "-f", "f32le", "-ac", "1", "-ar", str(RATE))
        self.sound = numpy.abs(numpy.frombuffer(sound, numpy.float32))
        bright = self.luma[:, HEIGHT // 2, WIDTH // 2] > 128
        self.flashes = [n / FPS for n in range(1, len(bright)) if bright[n] and not bright[n - 1]]
        loud = numpy.flatnonzero(self.sound > 0.1)
        self.beeps = [loud[n] / RATE for n in range(len(loud)) if n == 0 or loud[n] - loud[n - 1] > RATE // 2]

    def apart(self):
        """How much later each beep is than the flash beside it, in seconds."""
        return [beep - flash for flash in self.flashes for beep in self.beeps if abs(beep - flash) < 0.4]


def read_number(luma):
    """The number in a picture; None if there is none."""
    cells = [luma[CELL // 2, CELL * n + CELL // 2] for n in range(BITS + 2)]
    if cells[0] < 200 or cells[1] > 50 or any(50 < cell < 200 for cell in cells):
        return None
    return sum(int(cell > 128) << n for n, cell in enumerate(cells[2:]))


def draw(luma, number, low=16, high=235):
    """A picture with a number, between a white and a black cell before it, and with a flash once a second."""
    luma[:] = low
    for n, on in enumerate([True, False] + [bool(number >> n & 1) for n in range(BITS)]):
        luma[:CELL, n * CELL:(n + 1) * CELL] = high if on else low
    if number % FPS == 0:
        luma[CELL * 2:HEIGHT - CELL * 2] = high


class Programme:
    """A sender of pictures and sound in real time, in a thread. What `paint` writes is in each picture."""

    def __init__(self, address="cam1", format="I420", width=WIDTH, more="colorimetry=bt709", paint=None, sound=True,
                 psk_file=None):
        media = f"video/x-raw,format={format},width={width},height={HEIGHT},framerate={FPS}/1,{more}"
        self.picture = gpudirect.Sender(address, media, device="host", slow_receiver="drop-oldest", psk_file=psk_file)
        self.sound = gpudirect.Sender(
            f"{address}/audio", f"audio/x-raw,format=F32LE,rate={RATE},channels=2,channel-mask=(bitmask)0x3,"
            f"layout=interleaved,samples-per-block={RATE // FPS}", device="host",
            slow_receiver="drop-oldest", psk_file=psk_file) if sound else None
        self.paint, self.number = paint, 0
        self.running, self.frozen = True, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        start = time.monotonic()
        while self.running:
            time.sleep(max(0, start + self.number / FPS - time.monotonic()))
            if self.frozen:
                self.number += 1
                continue
            pts = self.number * 1_000_000_000 // FPS
            with self.picture.acquire(1) as frame:
                frame.pts = pts
                if self.paint:
                    self.paint(frame, self.number)
                else:
                    for name, plane in frame.planes.items():
                        plane = numpy.asarray(plane)
                        if name == "Y":
                            draw(plane, self.number)
                        else:
                            plane[:] = 128
            if self.sound:
                with self.sound.acquire(1) as frame:
                    frame.pts = pts
                    block = numpy.asarray(frame)
                    block[:] = 0
                    if self.number % FPS == 0:
                        block[::2] = 0.5
                        block[1::2] = -0.5
            self.number += 1

    def end(self):
        self.running = False
        self.thread.join(DEADLINE)
        self.picture.close()
        if self.sound:
            self.sound.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
