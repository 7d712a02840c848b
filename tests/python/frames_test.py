# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames between processes: bit-exact, as arrays of every kind, and each held as long as an array of it lives."""

import contextlib
import ctypes
import gc
import io
import os
import shutil
import signal
import subprocess
import threading
import time
import weakref

import support
from support import DEADLINE, RGBA, Case, consume, delete, finish, process, until

np = support.need("numpy")

import gpudirect  # noqa: E402  after the addresses are set

PICTURES = """
import sys, gpudirect, numpy as np
address, media, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with gpudirect.Sender(address, media=media, device="host") as sender:
    sender.wait(1, timeout=60)
    for number in range(count):
        with sender.acquire(timeout=60) as frame:
            raw = np.asarray(frame.raw)
            raw[:] = np.random.default_rng(number).integers(0, 256, raw.size, np.uint8)
            frame.offset, frame.pts, frame.meta = number, 1000 * number, b"meta %d" % number
            frame.large_meta = b"%d" % (number % 10) * (1300 * number)
"""


def made(number, size):
    return np.random.default_rng(number).integers(0, 256, size, np.uint8)


class Frames(Case):

    def pair(self, media=RGBA, suffix="", **named):
        """A sender and a receiver of this process, connected."""
        sender = gpudirect.Sender(self.address + suffix, media=media, device="host", **named)
        receiver = gpudirect.Receiver(self.address + suffix, device="host", timeout=DEADLINE)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        return sender, receiver

    def connect(self, sender, receiver):
        def connected():
            self.assertIsNone(receiver.poll())
            return sender.info["receivers"] == 1
        until("the receiver is connected", connected)

    def send(self, sender, fill=0):
        with sender.acquire(timeout=DEADLINE) as frame:
            np.asarray(frame.raw)[:] = fill

    def test_round_trip(self):
        with process(PICTURES, self.address, RGBA, "50") as child, \
                gpudirect.Receiver(self.address, device="host", timeout=DEADLINE) as receiver:
            count = 0
            for frame in receiver:
                self.assertEqual((frame.offset, frame.pts, frame.meta), (count, 1000 * count, b"meta %d" % count))
                self.assertEqual(frame.large_meta, b"%d" % (count % 10) * (1300 * count))
                self.assertTrue(np.array_equal(np.asarray(frame.raw), made(count, 64 * 36 * 4)))
                self.assertTrue(np.array_equal(np.asarray(frame), made(count, 64 * 36 * 4).reshape(36, 64, 4)))
                self.assertTrue(frame.valid)
                self.assertEqual(frame.route, "map")
                self.assertEqual((frame.format, frame.width, frame.height, frame.device), ("RGBA", 64, 36, "host"))
                count += 1
            self.assertEqual(count, 50)
            self.assertEqual(receiver.info["copies_cpu"], 0)
            finish(child)

    def test_large_meta(self):
        sender, receiver = self.pair(large_meta_max=100000)
        with sender.acquire(timeout=DEADLINE) as frame:
            frame.large_meta = bytes(100001)
            with self.assertRaisesRegex(gpudirect.Invalid, "large_meta_max is 100000"):
                sender.submit(frame)
        with sender.acquire(timeout=DEADLINE) as frame:
            frame.large_meta = b"first"
            frame.large_meta = bytearray(range(250)) * 400
        self.send(sender)
        frame = receiver.acquire(timeout=DEADLINE)
        frame.release()
        with self.assertRaises(gpudirect.Error):
            frame.large_meta
        self.assertEqual(receiver.acquire(timeout=DEADLINE).large_meta, b"")

    def test_own_memory(self):
        """Frames come into arrays of the application's, which are kept no longer than needed."""
        memory = {}

        def alloc(slot, size):
            memory[slot] = np.zeros(size + 100, np.uint8)
            return memory[slot]

        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, slots=3, alloc=alloc)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        size = 64 * 36 * 4
        for number in range(1, 7):
            self.send(sender, number)
            with next(receiver) as frame:
                array = memory[frame.slot]
                self.assertEqual(frame.native, array.ctypes.data)
                self.assertTrue((array[:size] == number).all() and (array[size:] == 0).all())
                self.assertFalse(frame.readonly)
                np.asarray(frame.raw)[:] = 0
                self.assertFalse(array.any())
        self.assertEqual(sorted(memory), [0, 1, 2])
        alive = [weakref.ref(array) for array in memory.values()]
        memory.clear()
        del array
        self.send(sender, 9)
        frame = next(receiver)
        receiver.close()
        self.assertTrue((np.asarray(frame.raw) == 9).all())
        frame.release()
        until("the arrays are gone", lambda: not any(array() is not None for array in alive))

    def test_own_memory_by_its_address(self):
        memory = [np.zeros(64 * 36 * 4, np.uint8) for _ in range(4)]
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, timeout=DEADLINE, device="host",
                                      alloc=lambda slot, size: memory[slot].ctypes.data)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        self.send(sender, 3)
        frame = next(receiver)
        self.assertTrue((memory[frame.slot] == 3).all())

    def test_own_memory_that_will_not_do(self):
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        self.addCleanup(sender.close)
        memory = bytearray(1 << 16)

        def fail(slot, size):
            raise LookupError("of alloc")

        for alloc, kind, text in ((fail, LookupError, "of alloc"), (lambda slot, size: None, TypeError, "None"),
                                  (lambda slot, size: bytes(size), BufferError, ""),
                                  (lambda slot, size: bytearray(9), ValueError, "alloc\\(\\) gave 9 bytes"),
                                  (lambda slot: None, TypeError, "argument"),
                                  (lambda slot, size: 1 << 80, OverflowError, "")):
            with gpudirect.Receiver(self.address, device="host", alloc=alloc) as receiver:
                with self.assertRaisesRegex(kind, text):
                    receiver.acquire(timeout=DEADLINE)
        # It asks again, and then has some.
        answers = [None]
        with gpudirect.Receiver(self.address, device="host", slots=3,
                                alloc=lambda slot, size: answers.pop() if answers else bytearray(memory)) as receiver:
            self.refuses(TypeError, "None", receiver.acquire, timeout=DEADLINE)
            self.connect(sender, receiver)
            self.send(sender, 4)
            self.assertTrue((np.asarray(receiver.acquire(timeout=DEADLINE).raw) == 4).all())

    def test_by_lines(self):
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receivers = [gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, by_lines=by_lines)
                     for by_lines in (True, False)]
        self.addCleanup(sender.close)
        for receiver in receivers:
            self.addCleanup(receiver.close)

        def connected():
            for receiver in receivers:
                self.assertIsNone(receiver.poll())
            return sender.info["receivers"] == 2
        until("both are connected", connected)
        self.assertEqual(receivers[0].info["whole_reason"], "")
        self.assertIn("not asked for", receivers[1].info["whole_reason"])
        with sender.acquire(timeout=DEADLINE) as frame:
            picture = np.asarray(frame)
            picture[:12] = 1
            frame.offset = 77
            sender.submit_lines(frame, 12)
            early = next(receivers[0])
            self.assertEqual(early.offset, 77)
            self.assertIsNone(receivers[1].poll())
            early.wait_lines(12, timeout=DEADLINE)
            rows = np.asarray(early)
            self.assertTrue((rows[:12] == 1).all())
            self.refuses(gpudirect.Timeout, "", early.wait_lines, 13, timeout=0)
            self.refuses(gpudirect.Timeout, "", early.wait_lines, 36, timeout=0.1)
            self.refuses(gpudirect.Invalid, "", early.wait_lines, 37)
            self.refuses(TypeError, "", early.wait_lines)
            picture[12:] = 2
        # The end of the block handed over the rest.
        early.wait_lines(36, timeout=DEADLINE)
        self.assertTrue((rows[12:] == 2).all())
        self.assertTrue((np.asarray(next(receivers[1]))[12:] == 2).all())
        self.refuses(TypeError, "takes a gpudirect.Frame", sender.submit_lines, 1, 1)
        self.refuses(gpudirect.Error, "", sender.submit_lines, early, 1)
        # One that is given up in the middle is void.
        frame = sender.acquire(timeout=DEADLINE)
        sender.submit_lines(frame, 3)
        del early, rows, picture
        early = next(receivers[0])
        frame.release()
        self.refuses(gpudirect.TakenBack, "", early.wait_lines, 36, timeout=DEADLINE)
        self.assertFalse(early.valid)

    def test_standby(self):
        """A second sender waits for the address, and takes it over."""
        main = gpudirect.Sender(self.address, media=RGBA, device="host")
        backup = gpudirect.Sender(self.address, media=RGBA, device="host", standby=True)
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE)
        for one in (main, backup, receiver):
            self.addCleanup(one.close)
        self.assertEqual((main.info["stands_by"], backup.info["stands_by"]), (False, True))
        self.connect(main, receiver)
        main.close()
        until("it has the address", lambda: not backup.info["stands_by"])

        def connected():
            try:
                receiver.poll()
            except (gpudirect.PeerLost, gpudirect.Closed):
                pass
            return backup.info["receivers"] == 1
        until("the receiver is connected", connected)

    def test_formats(self):
        shapes = {
            "GRAY8": {"Y": (36, 62)}, "GRAY16_LE": {"Y": (36, 62)}, "RGB": {"RGB": (36, 62, 3)},
            "UYVY": {"UYVY": (36, 62, 2)}, "rggb10le": {"bayer": (36, 62)}, "RGBA64_LE": {"RGBA": (36, 62, 4)},
            "ABGR64_LE": {"ABGR": (36, 62, 4)},
            "NV12": {"Y": (36, 62), "UV": (18, 31, 2)}, "P010_10LE": {"Y": (36, 62), "UV": (18, 31, 2)},
            "YV12": {"Y": (36, 62), "V": (18, 31), "U": (18, 31)},
            "I422_10LE": {"Y": (36, 62), "U": (36, 31), "V": (36, 31)},
            "v210": {"0": (36, 256)}, "r210": {"0": (36, 248)},
            "Y41B": {"Y": (36, 62), "U": (36, 16), "V": (36, 16)},
            "YVU9": {"Y": (36, 62), "V": (9, 16), "U": (9, 16)},
            "A420_10LE": {"Y": (36, 62), "U": (18, 31), "V": (18, 31), "A": (36, 62)},
            "I422_12LE": {"Y": (36, 62), "U": (36, 31), "V": (36, 31)},
            "AV12": {"Y": (36, 62), "UV": (18, 31, 2), "A": (36, 62)},
            "Y412_LE": {"UYVA": (36, 62, 4)}, "Y212_LE": {"YUY2": (36, 62, 2)}, "ARGB64": {"ARGB": (36, 62, 4)},
            "VUYA": {"VUYA": (36, 62, 4)}, "IYU2": {"UYV": (36, 62, 3)},
            "A444_16LE": {name: (36, 62) for name in "YUVA"}, "GBRA_10LE": {name: (36, 62) for name in "GBRA"},
            "GBR": {name: (36, 62) for name in "GBR"}, "BGRP": {name: (36, 62) for name in "BGR"},
            "Y444_12LE": {name: (36, 62) for name in "YUV"},
            "GRAY16_BE": {"Y": (36, 62)}, "P010_10BE": {"Y": (36, 62), "UV": (18, 31, 2)},
            "Y412_BE": {"UYVA": (36, 62, 4)}, "A444_10BE": {name: (36, 62) for name in "YUVA"},
        }
        sender = gpudirect.Sender(self.address, device="host")
        self.addCleanup(sender.close)
        for name, planes in shapes.items():
            media = "video/x-bayer" if name.startswith("rggb") else "video/x-raw"
            sender.configure(f"{media},format={name},width=62,height=36,framerate=25/1")
            with sender.acquire(timeout=DEADLINE) as frame:
                self.assertEqual({key: plane.shape for key, plane in frame.planes.items()}, planes, name)
                wide = any(bits in name for bits in ("10", "12", "16", "64")) and name[1:] not in ("210", "V12")
                for plane in frame.planes.values():
                    self.assertEqual(plane.dtype, ">u2" if "BE" in name else "uint16" if wide else "uint8")
                    self.assertEqual(np.asarray(plane).dtype, plane.dtype)
                    array = np.asarray(plane)
                    self.assertEqual((array.shape, array.strides), (plane.shape, plane.strides))
                if name in ("v210", "r210"):
                    self.refuses(BufferError, "frame.raw", memoryview, frame)
                    self.refuses(BufferError, "frame.raw", np.asarray, frame)
                    self.refuses(BufferError, "videoconvert ! video/x-raw,format=RGBA", frame.__dlpack__)
                    self.refuses(AttributeError, "frame.raw", getattr, frame, "dtype")
                elif len(set(planes.values())) > 1:
                    self.refuses(BufferError, "frame.planes", memoryview, frame)
                    self.refuses(BufferError, "frame.planes", np.asarray, frame)
                    self.assertFalse(hasattr(frame, "shape"))
                else:
                    shape = list(planes.values())[0] if len(planes) == 1 else (len(planes), 36, 62)
                    self.assertEqual((memoryview(frame).shape, frame.shape), (shape, shape))
                    self.assertEqual(np.asarray(frame).dtype, frame.dtype)

    def test_planes_of_one_size_are_one_array(self):
        sender, receiver = self.pair("video/x-raw,format=GBRA_10LE,width=61,height=35,framerate=25/1")
        with sender.acquire(timeout=DEADLINE) as frame:
            for value, plane in enumerate(frame.planes.values()):
                np.asarray(plane)[:] = value + 1000
        frame = receiver.acquire(timeout=DEADLINE)
        array = np.asarray(frame)
        self.assertEqual((array.shape, array.dtype), ((4, 35, 61), np.uint16))
        for value in range(4):
            self.assertTrue((array[value] == value + 1000).all())
        capsule = consume(frame.__dlpack__(max_version=(1, 0)), True)
        self.assertEqual(capsule.tensor.shape[:3], [4, 35, 61])
        self.assertEqual([2 * stride for stride in capsule.tensor.strides[:3]], list(array.strides))
        delete(capsule)

    def test_formats_of_a_pipeline(self):
        """Pictures of GStreamer's are arrays, and those that cannot be say what helps."""
        plugin = os.environ["GST_PLUGIN_PATH"] + "/libgstgpudirect.so"
        if not shutil.which("gst-launch-1.0") or not os.path.exists(plugin):
            self.skipTest("this build has no elements")
        shapes = {"A444_10LE": (4, 36, 62), "ARGB64": (36, 62, 4), "GBRA_10LE": (4, 36, 62), "Y412_LE": (36, 62, 4),
                  "NV12_4L4": None}
        for name, shape in shapes.items():
            child = subprocess.Popen(["gst-launch-1.0", "-q", "videotestsrc", "num-buffers=1", "pattern=white", "!",
                                      f"video/x-raw,format={name},width=62,height=36", "!", "gpudirectsink",
                                      "wait-for-connection=true", f"address={self.address}-{name}"])
            self.addCleanup(child.wait, DEADLINE)
            self.addCleanup(child.kill)
            with gpudirect.Receiver(f"{self.address}-{name}", device="host", timeout=DEADLINE) as receiver:
                frame = next(receiver)
                if shape:
                    array = np.asarray(frame)
                    self.assertEqual((array.shape, array.dtype), (shape, np.uint16), name)
                    self.assertGreater(array[0, 0].max(), 500, name)
                else:
                    self.refuses(BufferError, "videoconvert ! video/x-raw,format=RGBA", np.asarray, frame)

    def test_dlpack_has_no_big_endian_numbers(self):
        sender, _ = self.pair("video/x-raw,format=GRAY16_BE,width=62,height=36,framerate=25/1")
        self.refuses(BufferError, "big-endian", sender.acquire(timeout=DEADLINE).__dlpack__)

    def test_what_it_says_of_itself(self):
        sender, receiver = self.pair("video/x-raw,format=UYVY,width=64,height=36,framerate=25/1")
        lent = sender.acquire(timeout=DEADLINE)
        self.assertEqual(repr(lent), "<Frame 64x36 UYVY, host>")
        lent.pts = 12_340_000_000
        sender.submit(lent)
        self.assertEqual(repr(lent), "<Frame 64x36 UYVY, host, pts 12.340 s, submitted>")
        frame = receiver.acquire(timeout=DEADLINE)
        self.assertEqual((repr(frame), frame.shape, frame.dtype),
                         ("<Frame 64x36 UYVY, host, pts 12.340 s>", (36, 64, 2), "uint8"))
        self.assertEqual(repr(frame.planes["UYVY"]), "<Plane (36, 64, 2) uint8, host>")
        frame.release()
        self.assertEqual(repr(frame), "<Frame, released>")
        self.refuses(gpudirect.Invalid, "was released", getattr, frame, "shape")
        alone = gpudirect.Sender(self.address + "-alone", device="host")
        self.addCleanup(alone.close)
        for media, text in (("audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved,samples-per-block=480",
                             "<Frame 2 channels of S16LE at 48000 Hz, 1920 bytes, host>"),
                            ("meta/x-klv,max-size=(guint64)100", "<Frame 100 bytes of meta/x-klv, host>")):
            alone.configure(media)
            self.assertEqual(repr(alone.acquire(timeout=DEADLINE)), text)

    # --- arrays that exist

    def test_arrays_are_submitted(self):
        wide = np.arange(62 * 36, dtype=np.uint16)
        arrays = {
            "RGBA": made(1, 36 * 62 * 4).reshape(36, 62, 4),
            "RGB": made(2, 36 * 62 * 3).reshape(36, 62, 3),  # whose rows have gaps in the frame
            "GRAY8": made(3, 62 * 36).reshape(62, 36).T,  # and here in the array
            "BGRx": memoryview(bytes(range(248)) * 36).cast("B", (36, 62, 4)),
            "GRAY16_LE": wide.reshape(36, 62)[::-1, ::-1],
            "A444_16LE": np.stack([wide.reshape(36, 62) + number for number in range(4)]),
            "GRAY16_BE": wide.reshape(36, 62).astype(">u2"),
        }
        for name, array in arrays.items():
            sender, receiver = self.pair(f"video/x-raw,format={name},width=62,height=36,framerate=25/1", name)
            sender.submit(array, DEADLINE, pts=77)
            frame = receiver.acquire(timeout=DEADLINE)
            self.assertTrue(np.array_equal(np.asarray(frame), array), name)
            self.assertEqual(frame.pts, 77)

    def test_arrays_of_other_kinds(self):
        class Interface:
            def __init__(self, array):
                self.array = array
                self.__array_interface__ = array.__array_interface__

        class DLPack:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **named):
                return self.array.__dlpack__(**named)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        sender, receiver = self.pair()
        for number, kind in enumerate((Interface, DLPack)):
            array = made(number, 36 * 64 * 4).reshape(36, 64, 4)
            sender.submit(kind(array), timeout=DEADLINE)
            self.assertTrue(np.array_equal(np.asarray(receiver.acquire(timeout=DEADLINE)), array))
        # A received frame is one, too, but is sent on without a copy.
        sender.submit(array, timeout=DEADLINE)
        sender.submit(receiver.acquire(timeout=DEADLINE), timeout=DEADLINE)
        self.assertTrue(np.array_equal(np.asarray(receiver.acquire(timeout=DEADLINE)), array))

    def test_arrays_that_do_not_fit(self):
        sender, receiver = self.pair(slots=2)
        fits = np.zeros((36, 64, 4), np.uint8)
        for array, text in ((fits[:35], "(35, 64, 4) uint8 does not fit into frames of (36, 64, 4) uint8 (RGBA)"),
                            (fits[..., :3], "(36, 64, 3)"), (fits.astype(np.uint16), "uint16"),
                            (fits.view(np.int8), "int8"), (fits.astype(">u2"), ">u2"),
                            (fits.astype(np.float32), "float32"), (fits.ravel(), "(9216,)"), (b"", "(0,)"),
                            (np.uint8(1), "()"), (fits.astype(bool), "bool")):
            for _ in range(3):  # what is refused keeps no slot
                self.refuses(gpudirect.Invalid, text, sender.submit, array, DEADLINE)
        self.refuses(TypeError, "neither a gpudirect.Frame nor an array", sender.submit, object())
        for number in range(2):
            sender.submit(fits, timeout=DEADLINE)
        self.assertRaises(gpudirect.Timeout, sender.submit, fits, timeout=0.1)
        frame = receiver.acquire(timeout=DEADLINE)
        self.assertEqual(frame.number, 1)
        planar, _ = self.pair("video/x-raw,format=NV12,width=64,height=36,framerate=25/1", "-planar")
        self.refuses(gpudirect.Invalid, "frame.planes, of a frame of acquire()", planar.submit, fits)

    def test_short_arrays_of_sound_and_data(self):
        sound = "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved,samples-per-block=480"
        sender, receiver = self.pair(sound)
        for samples in (480, 7):
            block = np.arange(2 * samples, dtype=np.int16).reshape(samples, 2)
            sender.submit(block, timeout=DEADLINE)
            self.assertTrue(np.array_equal(np.asarray(receiver.acquire(timeout=DEADLINE)), block))
        self.refuses(gpudirect.Invalid, "(480,) int16 does not fit", sender.submit, np.zeros(480, np.int16))
        sender, receiver = self.pair("meta/x-klv,max-size=(guint64)100", "-data")
        sender.submit(b"seven b", timeout=DEADLINE)
        self.assertEqual(bytes(receiver.acquire(timeout=DEADLINE)), b"seven b")

    # --- notebooks

    def pillow(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("PIL is not installed (Debian: apt install python3-pil)")
        return Image

    def test_pictures_in_notebooks(self):
        image = self.pillow()
        orange, gray = (250, 120, 10), (120, 120, 120)
        # Samples of that orange in BT.601, limited to 16…235.
        y, u, v = 141, 61, 194
        frames = {
            "RGBA": {"RGBA": (*orange, 0)}, "BGRx": {"BGRx": (*orange[::-1], 0)}, "RGB": {"RGB": orange},
            "GRAY8": {"Y": 120}, "GRAY16_LE": {"Y": 120 << 8}, "GRAY10_LE16": {"Y": 120 << 2},
            "ARGB64_LE": {"ARGB": (0, *(value << 8 for value in orange))}, "GRAY16_BE": {"Y": 120 << 8},
            "GBR_10BE": {"G": 120 << 2, "B": 10 << 2, "R": 250 << 2},
            "GBR_12LE": {"G": 120 << 4, "B": 10 << 4, "R": 250 << 4},
            "NV12": {"Y": y, "UV": (u, v)}, "NV21": {"Y": y, "VU": (v, u)}, "I420": {"Y": y, "U": u, "V": v},
            "P010_10LE": {"Y": y << 8, "UV": (u << 8, v << 8)}, "I422_10LE": {"Y": y << 2, "U": u << 2, "V": v << 2},
            "AYUV": {"AYUV": (0, y, u, v)}, "Y412_LE": {"UYVA": (u << 8, y << 8, v << 8, 0)},
        }
        packed = {"UYVY": (u, y, v, y), "YUY2": (y, u, y, v), "YVYU": (y, v, y, u), "VYUY": (v, y, u, y)}
        for name, values in (frames | packed).items():
            sender, receiver = self.pair(f"video/x-raw,format={name},width=62,height=36,framerate=25/1", name)
            with sender.acquire(timeout=DEADLINE) as frame:
                self.assertIsNone(frame._repr_png_())
                if name in packed:
                    np.asarray(frame).reshape(36, 31, 4)[:] = values
                else:
                    for plane, value in values.items():
                        np.asarray(frame.planes[plane])[:] = value
            frame = receiver.acquire(timeout=DEADLINE)
            shown = image.open(io.BytesIO(frame._repr_png_())).convert("RGB")
            self.assertEqual(shown.size, (62, 36))
            want = gray if name.startswith("GRAY") else orange
            for place in ((0, 0), (61, 35), (30, 17)):
                self.assertLess(max(abs(a - b) for a, b in zip(shown.getpixel(place), want)), 4, name)
            frame.release()
            self.assertIsNone(frame._repr_png_())

    def test_notebooks_get_no_more_than_they_show(self):
        image = self.pillow()
        sender, receiver = self.pair("video/x-raw,format=GRAY8,width=3841,height=21,framerate=25/1")
        sender.submit(np.tile((np.arange(3841) % 256).astype(np.uint8), (21, 1)), timeout=DEADLINE)
        shown = np.asarray(image.open(io.BytesIO(receiver.acquire(timeout=DEADLINE)._repr_png_())))
        self.assertEqual(shown.shape, (6, 961))
        self.assertTrue((shown == np.arange(0, 3841, 4) % 256).all())
        for number, media in enumerate(("video/x-raw,format=v210,width=64,height=36",
                                        "video/x-bayer,format=rggb,width=64,height=36",
                                        "meta/x-klv,max-size=(guint64)100")):
            sender, receiver = self.pair(media, str(number))
            self.send(sender)
            self.assertIsNone(receiver.acquire(timeout=DEADLINE)._repr_png_())

    def test_planes_are_apart(self):
        sender, receiver = self.pair("video/x-raw,format=NV12,width=62,height=36,framerate=25/1")
        with sender.acquire(timeout=DEADLINE) as frame:
            for value, plane in enumerate(frame.planes.values()):
                np.asarray(plane)[:] = value + 1
        frame = receiver.acquire(timeout=DEADLINE)
        for value, plane in enumerate(frame.planes.values()):
            self.assertTrue((np.asarray(plane) == value + 1).all())

    def test_odd_widths_are_refused(self):
        sender, _ = self.pair("video/x-raw,format=UYVY,width=63,height=2,framerate=25/1")
        with sender.acquire(timeout=DEADLINE) as frame:
            self.refuses(BufferError, "frame.raw", memoryview, frame)
            self.assertEqual(frame.raw.dtype, "uint8")

    def test_sound(self):
        sender, receiver = self.pair("audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved,"
                                     "samples-per-block=480")
        with sender.acquire(timeout=DEADLINE) as frame:
            array = np.asarray(frame)
            self.assertEqual((array.shape, array.dtype), ((480, 2), np.int16))
            array[:] = np.arange(960).reshape(480, 2) - 480
        self.assertEqual(np.asarray(receiver.acquire(timeout=DEADLINE)).sum(), -480)
        alone = gpudirect.Sender(self.address + "-alone", device="host")
        self.addCleanup(alone.close)
        for text, shape, kind in (("S16BE,rate=48000,channels=2,layout=interleaved", (100, 2), ">i2"),
                                  ("F32LE,rate=48000,channels=3,layout=non-interleaved", (3, 100), np.float32),
                                  ("S32LE,rate=48000,channels=1,layout=interleaved", (100, 1), np.int32)):
            alone.configure(f"audio/x-raw,format={text},samples-per-block=100")
            with alone.acquire(timeout=DEADLINE) as frame:
                self.assertEqual((np.asarray(frame).shape, np.asarray(frame).dtype), (shape, kind))
        alone.configure("audio/x-raw,format=S24LE,rate=48000,channels=2,layout=interleaved,samples-per-block=10")
        self.refuses(BufferError, "S24LE", memoryview, alone.acquire(timeout=DEADLINE))

    def test_data(self):
        sender, receiver = self.pair("meta/x-klv,max-size=(guint64)100")
        self.send(sender, 7)
        array = np.asarray(receiver.acquire(timeout=DEADLINE))
        self.assertEqual((array.shape, int(array.sum())), ((100,), 700))

    def test_short_blocks(self):
        """A block that uses a part of its slot is that long at the receiver, too."""
        sound = "audio/x-raw,format=S16LE,rate=48000,channels=2,samples-per-block=480,layout="
        for number, (media, short) in enumerate(((sound + "interleaved", (7, 2)), (sound + "non-interleaved", (2, 7)),
                                                 ("meta/x-klv,max-size=(guint64)100", (28,)))):
            sender, receiver = self.pair(media, str(number))
            self.send(sender, 9)
            receiver.acquire(timeout=DEADLINE).release()
            with sender.acquire(timeout=DEADLINE) as frame:
                frame.size = 28
                array = np.asarray(frame)
                self.assertEqual((array.shape, array.nbytes, frame.raw.nbytes), (short, 28, 28))
                array[:] = 5
                self.refuses(gpudirect.Invalid, "before it has any", setattr, frame, "size", 14)
            frame = receiver.acquire(timeout=DEADLINE)
            self.assertEqual((np.asarray(frame).shape, frame.size), (short, 28))
            self.assertTrue((np.asarray(frame) == 5).all())
            self.refuses(AttributeError, "Sender.acquire()", setattr, frame, "size", 14)

    def test_sizes_that_cannot_be(self):
        sender, _ = self.pair("audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved,samples-per-block=48")
        frame = sender.acquire(timeout=DEADLINE)
        for size in (0, 193):
            self.refuses(gpudirect.Invalid, "1 to 192", setattr, frame, "size", size)
        self.refuses(TypeError, "", setattr, frame, "size", "many")
        frame.size = 6
        self.refuses(gpudirect.Invalid, "a multiple of 4", sender.submit, frame)  # and it is dropped
        picture, _ = self.pair(suffix="-picture")
        self.refuses(gpudirect.Invalid, "a picture", setattr, picture.acquire(timeout=DEADLINE), "size", 1)

    def test_exception_drops(self):
        sender, receiver = self.pair()
        with self.assertRaises(KeyError):
            with sender.acquire(timeout=DEADLINE):
                raise KeyError
        self.assertEqual(sender.info["frames"], 0)
        self.send(sender, 9)
        self.assertEqual(receiver.acquire(timeout=DEADLINE).number, 1)

    def test_events_and_end(self):
        seen = []
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE,
                                      on_event=lambda kind, data: seen.append((kind, data)))
        self.addCleanup(receiver.close)
        with sender:
            self.connect(sender, receiver)
            sender.send_event(5, b"first")
            self.send(sender)
            sender.send_event(6)
        self.assertTrue(sender.closed)
        self.assertEqual(len(list(receiver)), 1)
        self.assertEqual(seen, [(5, b"first"), (6, b"")])

    def test_key_requests(self):
        sender, receiver = self.pair()
        self.assertIsNone(sender.take_key_request())
        with sender.acquire(timeout=DEADLINE) as frame:
            frame.flags = 1 << 7  # GPUD_FRAME_DELTA: of no use to a receiver that has no frame yet
        self.assertEqual(sender.take_key_request(), {"at_once": True, "all_headers": True, "time": None})
        self.assertIsNone(sender.take_key_request())
        receiver.request_key(all_headers=True)
        self.assertEqual(sender.take_key_request(), {"at_once": True, "all_headers": True, "time": None})
        receiver.request_key(at_once=False)
        self.assertEqual(sender.take_key_request(), {"at_once": False, "all_headers": False, "time": None})
        self.assertRaises(TypeError, receiver.request_key, True)
        receiver.close()
        self.assertRaises(gpudirect.Closed, receiver.request_key)
        sender.close()
        self.assertRaises(gpudirect.Closed, sender.take_key_request)

    def test_event_handler_raises(self):
        def handler(kind, data):
            raise KeyError(kind)
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", on_event=handler)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        sender.send_event(5)
        self.send(sender)
        with self.assertRaises(KeyError):
            receiver.acquire(timeout=DEADLINE)

    def test_event_handler_raises_without_a_frame(self):
        """In poll(), and at the end of a loop: the handler's exception is never taken for the library's."""
        for kind in (KeyError, KeyboardInterrupt, gpudirect.Timeout, gpudirect.Closed):
            seen = []

            def handler(number, data):
                seen.append(number)
                raise kind(number)
            with gpudirect.Sender(self.address, media=RGBA, device="host") as sender, \
                    gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, on_event=handler) as receiver:
                self.connect(sender, receiver)
                sender.send_event(5)
                with self.assertRaises(kind):
                    until("the event is there", lambda: receiver.poll() or seen)
                sender.send_event(6)
                sender.send_eos()
                with self.assertRaises(kind):
                    list(receiver)
                self.assertEqual(seen, [5, 6])

    # --- lifetimes

    def test_released_while_others_use_it(self):
        """Threads that are inside of a frame when another one releases it finish, with its bytes."""
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, by_lines=True)
        self.addCleanup(sender.close)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        for number in range(1, 11):
            lent = sender.acquire(timeout=DEADLINE)
            np.asarray(lent.raw)[:] = number
            sender.submit_lines(lent, 1)
            early = next(receiver)
            # The first waits for the other rows, and the others for the first.
            uses = [lambda: early.__dlpack__(max_version=(1, 0)), lambda: early.raw, lambda: early.planes["RGBA"],
                    lambda: early.valid, lambda: early.native, lambda: early.join(0),
                    lambda: early.__enter__() and early.__exit__(None, None, None)]
            results = [None] * len(uses)

            def use(at):
                # It may begin after the release; and the host has no queue to join.
                with contextlib.suppress(gpudirect.Invalid, gpudirect.Unsupported):
                    results[at] = uses[at]()
            threads = [threading.Thread(target=use, args=(at,)) for at in range(len(uses))]
            for thread in threads:
                thread.start()
                time.sleep(0.01)
            early.release()
            sender.submit_lines(lent, 36)
            lent.release()
            for thread in threads:
                thread.join(DEADLINE)
                self.assertFalse(thread.is_alive())
            if results[0]:
                tensor = consume(results[0], True)
                self.assertEqual(ctypes.string_at(tensor.tensor.data, 64 * 36 * 4), bytes([number]) * (64 * 36 * 4))
                delete(tensor)
            for view in filter(None, results[1:3]):
                self.assertTrue((np.asarray(view) == number).all())

    def test_set_while_released_and_submitted(self):
        """Threads that change a lent frame wait while another one submits it in vain, and it is released meanwhile."""
        sender, receiver = self.pair(slots=2)
        held = []
        for number in range(2):
            self.send(sender, number)
            held.append(receiver.acquire(timeout=DEADLINE))
        for _ in range(5):
            frame = sender.acquire(timeout=DEADLINE)
            changes = [lambda: sender.submit_lines(frame, 1, timeout=0.3),
                       lambda: setattr(frame, "large_meta", bytes(60000)), lambda: setattr(frame, "meta", bytes(700)),
                       lambda: setattr(frame, "pts", 7), lambda: frame.valid]

            def change(at):
                with contextlib.suppress(gpudirect.Invalid, gpudirect.Timeout):
                    changes[at]()
            threads = [threading.Thread(target=change, args=(at,)) for at in range(len(changes))]
            for thread in threads:
                thread.start()
                time.sleep(0.01)
            frame.release()
            for thread in threads:
                thread.join(DEADLINE)
                self.assertFalse(thread.is_alive())
        held.clear()
        self.send(sender, 9)
        self.assertTrue((np.asarray(receiver.acquire(timeout=DEADLINE)) == 9).all())

    def test_array_outlives_everything(self):
        sender, receiver = self.pair()
        self.send(sender, 42)
        frame = receiver.acquire(timeout=DEADLINE)
        array, plane = np.asarray(frame), frame.planes["RGBA"]
        frame.release()
        self.refuses(gpudirect.Invalid, "was released", memoryview, frame)
        self.assertFalse(frame.valid)
        receiver.close()
        sender.close()
        del receiver, sender, frame
        gc.collect()
        self.assertTrue((array == 42).all())
        self.assertTrue((np.asarray(plane) == 42).all())

    def test_last_array_returns_the_slot(self):
        """Two slots: the sender blocks while both are held, and goes on with each that is dropped."""
        sender, receiver = self.pair(slots=2)
        held = []
        for number in range(2):
            self.send(sender, number)
            held.append(np.asarray(receiver.acquire(timeout=DEADLINE)))
        frame = sender.acquire(timeout=DEADLINE)
        self.refuses(gpudirect.Timeout, "", sender.submit, frame, timeout=0.2)
        frame.release()
        for number in range(2, 40):
            held.pop(0)
            self.send(sender, number % 256)
            held.append(np.asarray(receiver.acquire(timeout=DEADLINE)))
            self.assertTrue((held[-1] == number).all())
            self.assertTrue((held[0] == number - 1).all())

    def test_submitted_array_keeps_memory(self):
        sender, receiver = self.pair()
        with sender.acquire(timeout=DEADLINE) as frame:
            array = np.asarray(frame)
            array[:] = 3
        self.refuses(gpudirect.Invalid, "was released", memoryview, frame)
        received = receiver.acquire(timeout=DEADLINE)
        self.assertTrue((np.asarray(received) == 3).all())
        sender.close()
        receiver.close()
        del sender, receiver, received, frame
        gc.collect()
        self.assertEqual(array.shape, (36, 64, 4))
        int(array.sum())

    def test_held_frames_are_not_overwritten(self):
        sender, receiver = self.pair(slots=4, slow_receiver="drop-oldest")
        self.send(sender, 1)
        frame = receiver.acquire(timeout=DEADLINE)
        for number in range(2, 30):
            self.send(sender, number)
        self.assertTrue(frame.valid)
        self.assertTrue((np.asarray(frame) == 1).all())
        frame.release()
        newest = [int(np.asarray(one)[0, 0, 0]) for one in self.rest(receiver)]
        self.assertEqual(newest[-1], 29)
        self.assertLess(len(newest), 28)

    def rest(self, receiver):
        frame = receiver.poll()
        while frame is not None:
            yield frame
            frame = receiver.poll()

    def test_relay(self):
        sender, receiver = self.pair()
        onward = gpudirect.Sender(self.address + "-on", media=RGBA, device="host")
        last = gpudirect.Receiver(self.address + "-on", device="host")
        self.addCleanup(onward.close)
        self.addCleanup(last.close)
        self.connect(onward, last)
        self.send(sender, 77)
        frame = receiver.acquire(timeout=DEADLINE)
        array = np.asarray(frame)
        self.refuses(gpudirect.Invalid, "arrays of the frame", onward.submit, frame)
        del array
        onward.submit(frame, timeout=DEADLINE)
        self.assertTrue((np.asarray(last.acquire(timeout=DEADLINE)) == 77).all())

    def test_threads_drop_arrays(self):
        sender, receiver = self.pair(slots=8)
        queue, done = [], threading.Event()

        def drop():
            while not done.is_set() or queue:
                try:
                    queue.pop()
                except IndexError:
                    done.wait(0.0005)

        threads = [threading.Thread(target=drop) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(400):
                self.send(sender, number % 256)
                frame = receiver.acquire(timeout=DEADLINE)
                queue.append(np.asarray(frame))
                queue.append(memoryview(frame))
        finally:
            del frame
            done.set()
            for thread in threads:
                thread.join(DEADLINE)
        for number in range(16):
            with sender.acquire(timeout=DEADLINE) as frame:
                memoryview(frame.raw)[0] = number
            self.assertEqual(memoryview(receiver.acquire(timeout=DEADLINE).raw)[0], number)

    def test_objects_are_not_leaked(self):
        sender, receiver = self.pair()
        self.send(sender)
        frame = receiver.acquire(timeout=DEADLINE)
        dead = [weakref.ref(sender), weakref.ref(receiver)]
        sender.close()
        receiver.close()
        self.doCleanups()
        del sender, receiver, frame
        gc.collect()
        self.assertEqual([ref() for ref in dead], [None, None])

    # --- other processes that die

    def test_sender_is_killed(self):
        code = PICTURES.replace("range(count)", "iter(int, 1)").replace("default_rng(number)", "default_rng(1)")
        with process(code, self.address, RGBA, "0") as child, \
                gpudirect.Receiver(self.address, device="host", timeout=DEADLINE) as receiver:
            held = [next(receiver) for _ in range(2)]
            child.send_signal(signal.SIGKILL)
            with self.assertRaises(gpudirect.PeerLost) as raised:
                while True:
                    receiver.acquire(timeout=DEADLINE)
            self.assertEqual(raised.exception.status, "peer")
            for frame in held:
                self.assertTrue(np.array_equal(np.asarray(frame.raw), made(1, 64 * 36 * 4)))
            with process(PICTURES, self.address, RGBA, "3") as second:
                self.assertEqual(len(list(receiver)), 3)
                finish(second)

    def lose(self, receiver, child):
        """Kills the sender of a receiver, and starts another one: the loop goes on to its end."""
        with process(child, self.address, RGBA, "0") as first:
            for _ in range(2):
                next(receiver).release()
            first.send_signal(signal.SIGKILL)
            first.wait(DEADLINE)
        with process(PICTURES, self.address, RGBA, "3") as second:
            offsets = [frame.offset for frame in receiver]
            finish(second)
        self.assertEqual(offsets[-3:], [0, 1, 2])

    ENDLESS = PICTURES.replace("range(count)", "iter(int, 1)")

    def test_loops_wait_for_a_killed_sender(self):
        with gpudirect.Receiver(self.address, device="host", timeout=DEADLINE) as receiver, \
                self.assertLogs("gpudirect", "WARNING") as logs:
            self.lose(receiver, self.ENDLESS)
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], f"{self.address}: the sender (was|vanished).*; waiting for it to come back")
        self.assertEqual(receiver.info["connects"], 2)

    def test_a_function_is_told_of_a_killed_sender(self):
        told = []
        with gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, on_disconnect=told.append) as receiver:
            self.lose(receiver, self.ENDLESS)
        self.assertEqual([type(error) for error in told], [gpudirect.PeerLost])
        self.assertEqual(told[0].status, "peer")

    def test_loops_that_do_not_wait(self):
        def fail(error):
            raise LookupError(str(error))

        for number, (on_disconnect, kind) in enumerate((("raise", gpudirect.PeerLost), (fail, LookupError))):
            address = f"{self.address}-{number}"
            sender = gpudirect.Sender(address, media=RGBA, device="host")
            receiver = gpudirect.Receiver(address, device="host", timeout=DEADLINE, on_disconnect=on_disconnect)
            self.addCleanup(receiver.close)
            self.connect(sender, receiver)
            self.send(sender)
            sender.close()  # without EOS
            with self.assertRaises(kind):
                for frame in receiver:
                    frame.release()
            # One that has ended its stream may leave: nothing is lost, and the next loop waits for the next stream.
            for _ in range(2):
                with process(PICTURES, address, RGBA, "3") as child:
                    self.assertEqual(len(list(receiver)), 3)
                    finish(child)

    def test_a_step_ends_in_time_while_the_sender_is_away(self):
        told = []
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", timeout=0.2, on_disconnect=told.append)
        self.addCleanup(receiver.close)
        self.connect(sender, receiver)
        sender.close()
        self.refuses(gpudirect.Timeout, self.address, next, receiver)
        self.assertEqual(len(told), 1)
        receiver.close()
        self.assertEqual(list(receiver), [])


if __name__ == "__main__":
    support.main()
