# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Frames in asyncio: a loop over them leaves the event loop to others, and ends with the stream or with close()."""

import asyncio

import support
from support import DEADLINE, RGBA, Case

import gpudirect


class Loop(Case):

    def run_all(self, *coroutines):
        async def together():
            return await asyncio.wait_for(asyncio.gather(*coroutines), DEADLINE)
        return asyncio.run(together())

    def test_stream(self):
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host")
        self.addCleanup(receiver.close)

        async def send():
            while not sender.info["receivers"]:
                await asyncio.sleep(0.001)
            for number in range(20):
                frame = sender.acquire(timeout=0)
                memoryview(frame.raw)[0] = number
                sender.submit(frame, timeout=0)
                await asyncio.sleep(0.001)
            sender.send_eos()
            sender.close()

        async def receive():
            return [memoryview(frame.raw)[0] async for frame in receiver]

        self.assertEqual(self.run_all(send(), receive())[1], list(range(20)))

    def test_waits_for_a_sender_that_left(self):
        told = []
        receiver = gpudirect.Receiver(self.address, device="host", on_disconnect=told.append)
        self.addCleanup(receiver.close)

        async def send():
            for number in range(3):
                sender = gpudirect.Sender(self.address, media=RGBA, device="host")
                while not sender.info["receivers"]:
                    await asyncio.sleep(0.001)
                frame = sender.acquire(timeout=0)
                memoryview(frame.raw)[0] = number
                sender.submit(frame, timeout=0)
                if number == 2:
                    sender.send_eos()
                sender.close()

        async def receive():
            return [memoryview(frame.raw)[0] async for frame in receiver]

        self.assertEqual(self.run_all(send(), receive())[1], [0, 1, 2])
        self.assertEqual([type(error) for error in told], 2 * [gpudirect.PeerLost])

    def test_raises_for_a_sender_that_left(self):
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", on_disconnect="raise")
        self.addCleanup(receiver.close)

        async def leave():
            while not sender.info["receivers"]:
                await asyncio.sleep(0.001)
            sender.close()

        async def receive():
            with self.assertRaises(gpudirect.PeerLost):
                async for _ in receiver:
                    pass

        self.run_all(leave(), receive())

    def test_close_ends_the_loop(self):
        receiver = gpudirect.Receiver(self.address, device="host")

        async def receive():
            return [frame async for frame in receiver]

        async def close():
            while receiver._waiting is None:
                await asyncio.sleep(0.001)
            receiver.close()

        self.assertEqual(self.run_all(receive(), close())[0], [])

    def test_event_handler_raises(self):
        def handler(kind, data):
            raise KeyError(kind)
        sender = gpudirect.Sender(self.address, media=RGBA, device="host")
        receiver = gpudirect.Receiver(self.address, device="host", on_event=handler)
        self.addCleanup(receiver.close)

        async def send():
            while not sender.info["receivers"]:
                await asyncio.sleep(0.001)
            sender.send_event(5)
            sender.send_eos()
            sender.close()

        async def receive():
            with self.assertRaises(KeyError):
                async for _ in receiver:
                    pass

        self.run_all(send(), receive())

    def test_two_tasks(self):
        receiver = gpudirect.Receiver(self.address, device="host")
        self.addCleanup(receiver.close)

        async def receive():
            return [frame async for frame in receiver]

        async def second():
            while receiver._waiting is None:
                await asyncio.sleep(0.001)
            with self.assertRaises(RuntimeError):
                await receive()
            receiver.close()

        self.assertEqual(self.run_all(receive(), second())[0], [])

    def test_cancelled(self):
        receiver = gpudirect.Receiver(self.address, device="host")
        self.addCleanup(receiver.close)

        async def receive():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(aiter(receiver)), 0.05)
            self.assertIsNone(receiver._waiting)

        self.run_all(receive())


if __name__ == "__main__":
    support.main()
