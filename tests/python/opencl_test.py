# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames on OpenCL and pyopencl: its queue waits for the frame, the frame for its queue, and nothing is copied."""

import ctypes

import support
from support import DEADLINE, RGBA, Case, until

cl = support.need("pyopencl")
np = support.need("numpy")

import gpudirect  # noqa: E402  after the addresses are set

SIZE = 64 * 36 * 4


class OpenCL(Case):

    def setUp(self):
        super().setUp()
        self.sender = gpudirect.Sender(self.address, media=RGBA, device="opencl:0", slots=2)
        self.receiver = gpudirect.Receiver(self.address, device="opencl:0", timeout=DEADLINE)
        self.addCleanup(self.sender.close)
        self.addCleanup(self.receiver.close)

        def connected():
            self.assertIsNone(self.receiver.poll())
            return self.sender.info["receivers"] == 1
        until("the receiver is connected", connected)

    def buffer_of(self, frame):
        """The frame's cl_mem, and a queue on its device."""
        memory = cl.MemoryObject.from_int_ptr(frame.native, retain=True)
        context = memory.get_info(cl.mem_info.CONTEXT)
        device = context.get_info(cl.context_info.DEVICES)[0]
        return memory, cl.CommandQueue(context, device)

    def test_queues_wait_for_frames(self):
        """The writer's command stands still when its frame is sent, and the reader's is behind it."""
        for number in range(20):
            frame = self.sender.acquire(timeout=DEADLINE)
            self.assertEqual(frame.__dlpack_device__(), (4, 0))
            memory, queue = self.buffer_of(frame)
            gate = cl.UserEvent(memory.get_info(cl.mem_info.CONTEXT))
            frame.join(queue.int_ptr)
            pattern = np.arange(number, number + 4, dtype=np.uint8)
            cl.enqueue_fill_buffer(queue, memory, pattern, frame.native_offset, SIZE, wait_for=[gate])
            queue.flush()
            self.sender.submit(frame, timeout=DEADLINE)
            gate.set_status(cl.command_execution_status.COMPLETE)
            received = self.receiver.acquire(timeout=DEADLINE)
            source, reader = self.buffer_of(received)
            received.join(reader.int_ptr)
            copy = np.empty(SIZE, np.uint8)
            cl.enqueue_copy(reader, copy, source, src_offset=received.native_offset, is_blocking=True)
            self.assertTrue((copy.reshape(-1, 4) == pattern).all(), number)
            received.release()
        self.assertEqual(self.sender.info["copies_cpu"], 0)

    def test_what_is_no_queue_is_refused(self):
        frame = self.sender.acquire(timeout=DEADLINE)
        self.refuses(gpudirect.Invalid, "no default queue", frame.join, 0)
        self.refuses(TypeError, "", frame.join, "queue")
        foreign = cl.CommandQueue(cl.Context([cl.get_platforms()[0].get_devices()[0]]))
        self.refuses(gpudirect.Invalid, "another context", frame.join, foreign.int_ptr)
        self.refuses(BufferError, "frame.join()", frame.__dlpack__)
        frame.release()
        self.refuses(gpudirect.Error, "", frame.join, foreign.int_ptr)

    def test_host_frames_have_no_queue(self):
        with gpudirect.Sender(self.address + "-host", media=RGBA, device="host") as sender:
            with sender.acquire(timeout=DEADLINE) as frame:
                self.refuses(gpudirect.Unsupported, "map the frame", frame.join, 1)
                ctypes.memset(frame.native, 0, SIZE)


if __name__ == "__main__":
    support.main()
