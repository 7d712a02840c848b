# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Receiver.switch(): another sender while a loop takes frames."""

import asyncio
import threading

import support
from support import DEADLINE, RGBA, Case

import gpudirect


class Switch(Case):

    def setUp(self):
        super().setUp()
        self.addresses = [f"{self.address}-{camera}" for camera in (1, 2)]
        self.senders = [gpudirect.Sender(address, media=RGBA, device="host", slow_receiver="drop-oldest")
                        for address in self.addresses]
        for sender in self.senders:
            self.addCleanup(sender.close)
        self.told = []
        self.receiver = gpudirect.Receiver(self.addresses[0], device="host",
                                           on_switch=lambda address, error: self.told.append((address, error)))
        self.addCleanup(self.receiver.close)
        self.number = 0

    def send(self):
        """The number of the frame, and of the camera, in the first bytes."""
        self.number += 1
        for camera, sender in enumerate(self.senders):
            frame = sender.acquire(timeout=DEADLINE)
            memoryview(frame.raw)[:2] = bytes((self.number % 250, camera))
            sender.submit(frame, timeout=DEADLINE)

    def take(self):
        frame = self.receiver.acquire(timeout=DEADLINE)
        return memoryview(frame.raw)[1]

    def connect(self):
        support.until("a connection", lambda: (self.receiver.poll(), self.senders[0].info["receivers"])[1])
        self.send()
        self.assertEqual(self.take(), 0)

    def run_until_told(self):
        def step():
            self.send()
            self.take()
            return self.told
        support.until("the switch", step)
        return self.told.pop()

    def test_there_and_back(self):
        self.connect()
        self.assertEqual(self.receiver.info["address"], self.addresses[0])
        for turn in range(1, 7):
            address = self.addresses[turn % 2]
            self.receiver.switch(address, timeout=DEADLINE)
            self.assertEqual(self.run_until_told(), (address, None))
            self.assertEqual(self.receiver.info["address"], address)
            self.send()
            self.assertEqual(self.take(), turn % 2)
        self.assertEqual(self.receiver.info["switches"], 6)

    def test_no_sender(self):
        self.connect()
        self.receiver.switch("nowhere", 0.2)
        address, error = self.run_until_told()
        self.assertEqual(address, "nowhere")
        self.assertIsInstance(error, gpudirect.Timeout)
        self.assertIn("nowhere", str(error))
        self.send()
        self.assertEqual(self.take(), 0)
        self.refuses(gpudirect.Invalid, "address", self.receiver.switch, "")
        self.refuses(TypeError, "", self.receiver.switch, None)

    def test_what_on_switch_raises(self):
        receiver = gpudirect.Receiver(self.addresses[0], device="host", on_switch=lambda address, error: 1 / 0)
        self.addCleanup(receiver.close)
        self.receiver.close()
        self.receiver = receiver
        self.connect()
        receiver.switch("nowhere", timeout=0)
        with self.assertRaises(ZeroDivisionError):
            self.run_until_told()

    def test_a_warning(self):
        receiver = gpudirect.Receiver(self.addresses[0], device="host")
        self.addCleanup(receiver.close)
        self.receiver.close()
        self.receiver = receiver
        self.connect()
        receiver.switch("nowhere", timeout=0)
        with self.assertLogs("gpudirect", "WARNING") as logs:
            def step():
                self.send()
                self.take()
                return logs.output
            support.until("a warning", step)
        self.assertIn("no switch to nowhere", logs.output[0])

    def test_closed(self):
        self.receiver.switch(self.addresses[1])
        self.receiver.close()
        self.refuses(gpudirect.Closed, "", self.receiver.switch, self.addresses[1])

    def test_from_another_thread_in_a_loop(self):
        """A loop of asyncio, whose frames another thread switches."""
        stop = threading.Event()

        def send():
            while not stop.wait(0.002):
                self.send()

        async def receive():
            cameras = []
            async for frame in self.receiver:
                camera = memoryview(frame.raw)[1]
                if not cameras or camera != cameras[-1]:
                    cameras.append(camera)
                    threading.Thread(target=self.receiver.switch, args=(self.addresses[1 - camera],)).start()
                if len(cameras) == 6:
                    return cameras

        thread = threading.Thread(target=send)
        thread.start()
        try:
            cameras = asyncio.run(asyncio.wait_for(receive(), DEADLINE))
        finally:
            stop.set()
            thread.join()
        self.assertEqual(cameras, [0, 1] * 3)


if __name__ == "__main__":
    support.main()
