# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames on a GPU, on the CUDA driver in host memory: the consumer's stream waits for the bytes, the release waits for
the stream, and nothing is copied."""

import ctypes
import importlib.util
import os
import subprocess
import sys
import types
import unittest.mock
import zlib

import support
from support import DEADLINE, RGBA, Case, consume, delete, until

import gpudirect

CUDA = 2
SIZE = 64 * 36 * 4
driver = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(driver, name)(*arguments)
    if result != 0:
        raise AssertionError(f"{name} fails with {result}")


class Cuda(Case):

    def setUp(self):
        super().setUp()
        self.sender = gpudirect.Sender(self.address, media=RGBA, device="cuda:0", slots=2)
        self.receiver = gpudirect.Receiver(self.address, device="cuda:0", timeout=DEADLINE)
        self.addCleanup(self.sender.close)
        self.addCleanup(self.receiver.close)

        def connected():
            self.assertIsNone(self.receiver.poll())
            return self.sender.info["receivers"] == 1
        until("the receiver is connected", connected)
        context = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        call("cuCtxSetCurrent", context)

    def stream(self):
        made = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(made), 1)
        self.addCleanup(call, "cuStreamSynchronize", made)
        return made

    def send(self, value, stream):
        with self.sender.acquire(timeout=DEADLINE) as frame:
            self.assertEqual(frame.__dlpack_device__(), (CUDA, 0))
            managed = consume(frame.__dlpack__(stream=stream.value), False)
            call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(managed.tensor.data), bytes([value]) * SIZE,
                 ctypes.c_size_t(SIZE), stream)
            delete(managed)

    def received(self, stream):
        frame = self.receiver.acquire(timeout=DEADLINE)
        managed = consume(frame.__dlpack__(stream=stream.value, max_version=(1, 0)), True)
        self.assertEqual((managed.tensor.device.type, managed.tensor.device.number), (CUDA, 0))
        data = ctypes.create_string_buffer(SIZE)
        call("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(managed.tensor.data), ctypes.c_size_t(SIZE), stream)
        delete(managed)
        return data

    def test_degraded(self):
        """A route that is worse than the devices allow says what to change: here GPUs without access to each other."""
        code = "import sys, gpudirect\n" \
               "sender = gpudirect.Sender(sys.argv[1], media=sys.argv[2], device='cuda:0')\n" \
               "receiver = gpudirect.Receiver(sys.argv[1], device='cuda:1', timeout=int(sys.argv[3]))\n" \
               "while not sender.info['receivers']:\n    receiver.poll()\n" \
               "print(sender.links[0]['path'], sender.links[0]['degraded'], receiver.info['degraded'])"
        for peers, said in (("0", ["staged", "peer-access", "peer-access"]), ("1", ["peer"])):
            env = os.environ | {"GPUD_FAKE_CUDA_PEERS": peers}
            done = subprocess.run([sys.executable, "-c", code, f"{self.address}-{peers}", RGBA, str(DEADLINE)], env=env,
                                  capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(done.stdout.split(), said, done.stderr)

    def test_streams(self):
        """Each side on a stream of its own, in a ring of two slots: 60 frames come whole, and none is copied."""
        ours, theirs = self.stream(), self.stream()
        for number in range(60):
            self.send(number, ours)
            data = self.received(theirs)
            call("cuStreamSynchronize", theirs)
            self.assertEqual(data.raw, bytes([number]) * SIZE)
        self.assertEqual((self.receiver.info["copies_cpu"], self.receiver.info["copies_gpu"]), (0, 0))
        self.assertEqual((self.sender.info["copies_cpu"], self.sender.info["copies_gpu"]), (0, 0))

    def test_own_memory(self):
        """Frames come into memory that the application has allocated on the GPU, which knows it by its number."""
        memory, stream = {}, self.stream()

        def alloc(slot, size):
            memory[slot] = ctypes.c_uint64()
            call("cuMemAlloc_v2", ctypes.byref(memory[slot]), ctypes.c_size_t(size))
            self.addCleanup(call, "cuMemFree_v2", memory[slot])
            return memory[slot].value

        self.receiver.close()
        until("it has left", lambda: self.sender.info["receivers"] == 0)
        self.receiver = gpudirect.Receiver(self.address, device="cuda:0", timeout=DEADLINE, alloc=alloc)
        self.addCleanup(self.receiver.close)

        def connected():
            self.assertIsNone(self.receiver.poll())
            return self.sender.info["receivers"] == 1
        until("the receiver is connected", connected)
        for number in range(5):
            self.send(number, stream)
            frame = self.receiver.acquire(timeout=DEADLINE)
            self.assertEqual(frame.native, memory[frame.slot].value)
            managed = consume(frame.__dlpack__(stream=stream.value), False)
            data = ctypes.create_string_buffer(SIZE)
            call("cuMemcpyDtoHAsync_v2", data, ctypes.c_uint64(managed.tensor.data), ctypes.c_size_t(SIZE), stream)
            call("cuStreamSynchronize", stream)
            delete(managed)
            self.assertEqual(data.raw, bytes([number]) * SIZE)
            frame.release()
        with gpudirect.Receiver(self.address, device="cuda:0", alloc=lambda slot, size: bytearray(size)) as receiver:
            self.refuses(TypeError, "number of memory on cuda:0", receiver.acquire, timeout=DEADLINE)
        self.receiver.close()

    def test_arrays_of_the_host_are_submitted(self):
        picture = bytes(range(256)) * 36
        self.sender.submit(memoryview(picture).cast("B", (36, 64, 4)), timeout=DEADLINE)
        stream = self.stream()
        data = self.received(stream)
        call("cuStreamSynchronize", stream)
        self.assertEqual(data.raw, picture)

    def test_arrays_of_the_gpu_are_submitted(self):
        """By their own library, here the smallest one that there can be."""
        library = types.ModuleType("library")
        self.enterContext(unittest.mock.patch.dict(sys.modules, {"library": library}))

        class Array:
            __module__ = "library"
            dtype = "uint8"

            def __init__(self, data, rows=36, number=0, managed=None):
                self.data, self.shape, self.device, self.managed = data, (rows, 64, 4), (CUDA, number), managed

            def __dlpack_device__(self):
                return self.device

            def __setitem__(self, where, other):
                call("cuMemcpyDtoDAsync_v2", ctypes.c_uint64(self.data), ctypes.c_uint64(other.data),
                     ctypes.c_size_t(SIZE), None)

            def __del__(self):
                if self.managed:
                    delete(self.managed)

        def from_dlpack(frame):
            managed = consume(frame.__dlpack__(stream=1), False)
            return Array(managed.tensor.data, managed=managed)
        library.from_dlpack = from_dlpack

        memory = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
        self.addCleanup(call, "cuMemFree_v2", memory)
        for number in range(5):
            call("cuMemsetD8_v2", memory, ctypes.c_ubyte(number), ctypes.c_size_t(SIZE))
            self.sender.submit(Array(memory.value), timeout=DEADLINE)
            stream = self.stream()
            data = self.received(stream)
            call("cuStreamSynchronize", stream)
            self.assertEqual(data.raw, bytes([number]) * SIZE)
        for text, other in (("another device", {"number": 1}), ("(35, 64", {"rows": 35})):
            self.refuses(gpudirect.Invalid, text, self.sender.submit, Array(memory.value, **other), timeout=DEADLINE)
        del library.from_dlpack
        self.refuses(TypeError, "library has no from_dlpack()", self.sender.submit, Array(memory.value), DEADLINE)

    def test_frames_of_the_gpu_are_shown_in_notebooks(self):
        if not importlib.util.find_spec("numpy"):
            self.skipTest("numpy is not installed (Debian: apt install python3-numpy)")
        self.send(77, self.stream())
        shown = self.receiver.acquire(timeout=DEADLINE)._repr_png_()
        start = shown.index(b"IDAT") + 4
        length = int.from_bytes(shown[start - 8:start - 4], "big")
        self.assertEqual(zlib.decompress(shown[start:start + length]), (b"\0" + bytes([77]) * 3 * 64) * 36)

    def test_kinds_of_streams(self):
        ours = self.stream()
        # Not 2, the stream of the thread, which the fake does not have.
        for number, stream in enumerate((None, 1, -1, self.stream().value)):
            self.send(number, ours)
            frame = self.receiver.acquire(timeout=DEADLINE)
            delete(consume(frame.__dlpack__(stream=stream, max_version=(1, 0)), True))
        self.refuses(BufferError, "ambiguous", frame.__dlpack__, stream=0, max_version=(1, 0))

    def test_several_streams(self):
        ours, streams = self.stream(), [self.stream() for _ in range(3)]
        for number in range(20):
            self.send(number, ours)
            frame = self.receiver.acquire(timeout=DEADLINE)
            for stream in streams:
                delete(consume(frame.__dlpack__(stream=stream.value, max_version=(1, 0)), True))
            frame.release()

    def test_no_buffer_on_a_gpu(self):
        self.send(1, self.stream())
        frame = self.receiver.acquire(timeout=DEADLINE)
        self.refuses(BufferError, "cuda:0", memoryview, frame)
        self.refuses(BufferError, "not copied to another device", frame.__dlpack__, dl_device=(1, 0))
        self.refuses(BufferError, "copy the tensor", frame.__dlpack__, copy=True)
        self.assertEqual(frame.device, "cuda:0")


if __name__ == "__main__":
    support.main()
