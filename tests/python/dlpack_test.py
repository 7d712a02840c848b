# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""DLPack as a consumer sees it: both versions' capsules, flags, strides, and deleters without the GIL."""

import ctypes
import gc
import threading

import support
from support import DEADLINE, RGBA, Case, consume, delete, until

import gpudirect

READ_ONLY = 1


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


if __name__ == "__main__":
    support.main()
