# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""DLPack as a consumer sees it: both versions' capsules, flags, strides, and deleters without the GIL; and the cases by
which numpy, torch and the array API test their own arrays, with frames in their place."""

import ctypes
import gc
import importlib
import sys
import threading

import support
from support import DEADLINE, RGBA, Case, consume, delete, until

import gpudirect

READ_ONLY, COPIED = 1, 2
CPU = (1, 0)


class DLPack(Case):

    def setUp(self):
        super().setUp()
        self.sender = gpudirect.Sender(self.address, media=RGBA, device="host", slots=2)
        self.addCleanup(self.sender.close)

    def receiver(self, **named):
        receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, **named)
        self.addCleanup(receiver.close)

        def connected():
            self.assertIsNone(receiver.poll())
            return self.sender.info["receivers"] == 1
        until("the receiver is connected", connected)
        return receiver

    def send(self, value):
        with self.sender.acquire(timeout=DEADLINE) as frame:
            ctypes.memset(frame.native, value, frame.raw.nbytes)

    def check_tensor(self, tensor):
        self.assertEqual((tensor.device.type, tensor.device.number, tensor.byte_offset), (1, 0, 0))
        self.assertEqual((tensor.dimensions, tensor.shape[:3], tensor.strides[:3]), (3, [36, 64, 4], [256, 4, 1]))
        self.assertEqual((tensor.code, tensor.bits, tensor.lanes), (1, 8, 1))

    def test_lent_frames_are_writable(self):
        receiver = self.receiver()
        frame = self.sender.acquire(timeout=DEADLINE)
        old = consume(frame.__dlpack__(), False)
        new = consume(frame.__dlpack__(max_version=(1, 1), stream=None, copy=False, dl_device=(1, 0)), True)
        self.assertEqual((new.major, new.minor, new.flags), (1, 0, 0))
        for managed in (old, new):
            self.check_tensor(managed.tensor)
        ctypes.memset(old.tensor.data, 5, 64 * 36 * 4)
        delete(old)
        delete(new)
        self.sender.submit(frame, timeout=DEADLINE)
        self.assertEqual(bytes(receiver.acquire(timeout=DEADLINE).raw), b"\5" * 9216)

    def test_shared_frames_are_read_only(self):
        receiver = self.receiver()
        self.send(6)
        frame = receiver.acquire(timeout=DEADLINE)
        self.assertTrue(frame.readonly)
        for version in (None, (0, 8)):
            self.refuses(BufferError, "allow_old_dlpack", frame.__dlpack__, max_version=version)
        managed = consume(frame.__dlpack__(max_version=(1, 0)), True)
        self.assertEqual(managed.flags, READ_ONLY)
        self.check_tensor(managed.tensor)
        delete(managed)
        view = memoryview(frame)
        self.assertTrue(view.readonly)
        self.refuses(TypeError, "not writable", ctypes.c_char.from_buffer, frame)

    def test_old_capsules_can_be_allowed(self):
        receiver = self.receiver(allow_old_dlpack=True)
        self.send(7)
        managed = consume(receiver.acquire(timeout=DEADLINE).__dlpack__(), False)
        self.assertEqual(ctypes.string_at(managed.tensor.data, 9216), b"\7" * 9216)
        delete(managed)

    def test_unused_capsules(self):
        """One that is not consumed gives its hold back."""
        receiver = self.receiver()
        for number in range(20):
            self.send(number)
            receiver.acquire(timeout=DEADLINE).__dlpack__(max_version=(1, 0))

    def test_tensor_outlives_receiver(self):
        receiver = self.receiver()
        self.send(8)
        managed = consume(receiver.acquire(timeout=DEADLINE).__dlpack__(max_version=(1, 0)), True)
        receiver.close()
        self.sender.close()
        gc.collect()
        self.assertEqual(ctypes.string_at(managed.tensor.data, 9216), b"\x08" * 9216)
        delete(managed)

    def test_deleter_gives_the_slot_back(self):
        """Called in another thread, which never held the GIL while it runs."""
        receiver = self.receiver()
        held = []
        for number in range(60):
            self.send(number)
            held.append(consume(receiver.acquire(timeout=DEADLINE).__dlpack__(max_version=(1, 0)), True))
            if len(held) == 2:
                self.assertEqual(ctypes.string_at(held[1].tensor.data, 1)[0], number)
                thread = threading.Thread(target=delete, args=(held.pop(0),))
                thread.start()
                thread.join(DEADLINE)
                self.assertFalse(thread.is_alive())
        delete(held.pop())

    def test_deleter_needs_no_gil(self):
        """This thread keeps the GIL while it deletes: PyDLL does not drop it."""
        receiver = self.receiver()
        self.send(1)
        managed = consume(receiver.acquire(timeout=DEADLINE).__dlpack__(max_version=(1, 0)), True)
        deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(ctypes.cast(managed.deleter, ctypes.c_void_p).value)
        deleter(ctypes.addressof(managed))
        self.send(2)
        self.assertEqual(memoryview(receiver.acquire(timeout=DEADLINE).raw)[0], 2)


class Cases(Case):
    """A lent frame, which is writable, and another one as it is received, which is not."""

    def setUp(self):
        super().setUp()
        self.sender = gpudirect.Sender(self.address, media=RGBA, device="host", slots=3)
        self.receiver = gpudirect.Receiver(self.address, device="host", timeout=DEADLINE)
        self.addCleanup(self.sender.close)
        self.addCleanup(self.receiver.close)

        def connected():
            self.assertIsNone(self.receiver.poll())
            return self.sender.info["receivers"] == 1
        until("the receiver is connected", connected)
        self.lent = self.sender.acquire(timeout=DEADLINE)
        with self.sender.acquire(timeout=DEADLINE) as frame:
            ctypes.memmove(frame.native, bytes(range(256)) * 36, 9216)
        self.received = self.receiver.acquire(timeout=DEADLINE)

    def consumers(self, *names):
        found = []
        for name in names:
            try:
                found.append(importlib.import_module(name))
            except ImportError:
                print(f"{name} is not installed: not shown for it")
        return found

    def test_versions(self):
        """The capsule is of the consumer's version, or of the newest that is known."""
        for version, versioned in ((None, False), ((0, 0), False), ((0, 8), False), ((1, 0), True), ((1, 1), True),
                                   ((2, 0), True), ((100, 3), True)):
            managed = consume(self.lent.__dlpack__(max_version=version), versioned)
            if versioned:
                self.assertEqual((managed.major, managed.flags), (1, 0), version)
            delete(managed)

    def test_references(self):
        for version in (None, (0, 0), (1, 0), (100, 3)):
            before = sys.getrefcount(self.lent)
            capsule = self.lent.__dlpack__(max_version=version)
            del capsule
            self.assertEqual(sys.getrefcount(self.lent), before)

    def test_streams(self):
        """The host has none: None, and -1, by which a consumer wants no order."""
        for stream in (None, -1):
            delete(consume(self.received.__dlpack__(stream=stream, max_version=(1, 0)), True))
        for stream in (0, 1, 2, 12345):
            self.refuses(ValueError, "frames on the host have none", self.received.__dlpack__, stream=stream,
                         max_version=(1, 0))
        with self.assertRaises(TypeError):
            self.received.__dlpack__(stream=object(), max_version=(1, 0))

    def test_devices(self):
        self.assertEqual(self.received.__dlpack_device__(), CPU)
        self.assertEqual(self.received.planes["RGBA"].__dlpack_device__(), CPU)
        for device in (None, CPU):
            delete(consume(self.received.__dlpack__(dl_device=device, max_version=(1, 0)), True))
        for device in ((2, 0), (10, 0), (1, 1)):
            self.refuses(BufferError, "another device", self.received.__dlpack__, dl_device=device, max_version=(1, 0))

    def test_copies(self):
        for copy in (None, False):
            managed = consume(self.received.__dlpack__(copy=copy, max_version=(1, 0)), True)
            self.assertEqual((managed.tensor.data, managed.flags), (self.received.native, READ_ONLY))
            delete(managed)
        # A copy is the consumer's own, so old ones may have it, too.
        for version in (None, (1, 0)):
            managed = consume(self.received.__dlpack__(copy=True, max_version=version), bool(version))
            if version:
                self.assertEqual(managed.flags, COPIED)
            self.assertNotEqual(managed.tensor.data, self.received.native)
            self.assertEqual(managed.tensor.data % 256, 0)
            self.assertEqual(ctypes.string_at(managed.tensor.data, 9216), bytes(self.received.raw))
            ctypes.memset(managed.tensor.data, 1, 9216)
            delete(managed)
        self.assertEqual(bytes(self.received.raw), bytes(range(256)) * 36)

    def test_copies_have_no_gaps(self):
        """Planes lie in rows that are longer than the picture, and a copy's do not."""
        with gpudirect.Sender(f"{self.address}-narrow", device="host",
                              media="video/x-raw,format=A420_10LE,width=30,height=6,framerate=60/1") as sender:
            frame = sender.acquire(timeout=DEADLINE)
            for plane in frame.planes.values():
                view = memoryview(plane)
                for y in range(view.shape[0]):
                    for x in range(view.shape[1]):
                        view[y, x] = 100 * y + x
                managed = consume(plane.__dlpack__(copy=True, max_version=(1, 0)), True)
                shape, strides = managed.tensor.shape[:2], managed.tensor.strides[:2]
                self.assertEqual((shape, strides), (list(view.shape), [view.shape[1], 1]))
                self.assertEqual(ctypes.string_at(managed.tensor.data, view.nbytes), view.tobytes())
                delete(managed)
            frame.release()

    def test_a_copy_outlives_its_frame(self):
        managed = consume(self.received.__dlpack__(copy=True, max_version=(1, 0)), True)
        self.received.release()
        self.receiver.close()
        self.assertEqual(ctypes.string_at(managed.tensor.data, 9216), bytes(range(256)) * 36)
        delete(managed)

    def test_capsules_are_used_once(self):
        capsule = self.lent.__dlpack__()
        delete(consume(capsule, False))
        with self.assertRaises(ValueError):
            consume(capsule, False)
        for torch in self.consumers("torch"):
            capsule = self.lent.__dlpack__()
            tensor = torch.utils.dlpack.from_dlpack(capsule)
            with self.assertRaises((RuntimeError, ValueError)):
                torch.utils.dlpack.from_dlpack(capsule)
            self.assertEqual(tensor.data_ptr(), self.lent.native)

    def test_consumers_share_the_memory(self):
        for library in self.consumers("numpy", "torch"):
            array = library.from_dlpack(self.lent)
            self.assertEqual((tuple(array.shape), str(array.dtype).split(".")[-1]), ((36, 64, 4), "uint8"))
            ctypes.memset(self.lent.native, 9, 9216)
            self.assertTrue(bool((array == 9).all()))
            row = library.from_dlpack(self.lent.planes["RGBA"])[5, :, 1]
            self.assertTrue(bool((row == 9).all()))
            del array, row

    def test_read_only_in_consumers(self):
        """A consumer of version 1 reads, and one before that is refused rather than let to write."""
        for library in self.consumers("numpy", "torch"):
            try:
                array = library.from_dlpack(self.received)
            except BufferError as error:
                self.assertIn("allow_old_dlpack", str(error))
                continue
            self.assertTrue(bool((array[0, 0] == library.from_dlpack(self.received)[0, 0]).all()))
            if library.__name__ == "numpy":
                self.assertFalse(array.flags.writeable)

    def test_copies_of_consumers(self):
        """numpy from 2.1 on, and torch from 2.9 on, ask for copies."""
        for library in self.consumers("numpy", "torch"):
            try:
                array = library.from_dlpack(self.received, copy=True)
            except TypeError:
                print(f"{library.__name__} {library.__version__} cannot ask for a copy")
                continue
            self.assertEqual(bytes(array.reshape(-1)), bytes(self.received.raw))
            address = array.ctypes.data if library.__name__ == "numpy" else array.data_ptr()
            self.assertNotEqual(address, self.received.native)


if __name__ == "__main__":
    support.main()
