# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Receivers that hand on instants together, and a main and a backup sender, one of which is killed."""

import asyncio
import threading
import time

import support
from support import DEADLINE, Case, process, until

import gpudirect

MEDIA = "video/x-raw,format=GRAY8,width=64,height=36,framerate=50/1"
SENDER = """
import sys, time, gpudirect
address, media, base, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with gpudirect.Sender(address, media=media, device="host") as sender:
    sender.wait(1, timeout=60)
    for number in range(first, 1 << 20):
        time.sleep(max(0, base + number * 20000000 - time.monotonic_ns()) / 1e9)
        with sender.acquire(timeout=60) as frame:
            memoryview(frame.raw)[:1] = bytes([number % 256])
            frame.offset, frame.pts = number, number * 20000000
"""


class Groups(Case):

    def sender(self, name):
        sender = gpudirect.Sender(name, media=MEDIA, device="host")
        self.addCleanup(sender.close)
        return sender

    def group(self, *arguments, **named):
        group = gpudirect.Group(*arguments, device="host", **named)
        self.addCleanup(group.close)
        return group

    def pair(self, *arguments, **named):
        """Two senders of this process, and a group of both, connected."""
        names = [self.address + "-a", self.address + "-b"]
        senders = [self.sender(name) for name in names]
        group = self.group(names, *arguments, timeout=DEADLINE, **named)
        for sender in senders:
            sender.wait(1, timeout=DEADLINE)
        return senders, group

    def send(self, sender, number):
        with sender.acquire(timeout=DEADLINE) as frame:
            memoryview(frame.raw)[:1] = bytes([number])
            frame.pts = number * 20_000_000

    def test_all(self):
        senders, group = self.pair(history=2)
        self.send(senders[1], 1)
        self.send(senders[0], 1)
        instant = group.acquire(timeout=DEADLINE)
        self.assertTrue(instant.complete and instant.discontinuity)
        self.assertEqual((instant.time, instant.member, instant.states), (20_000_000, 0, ("present", "present")))
        self.assertEqual([memoryview(frame.raw)[0] for frame in instant.frames], [1, 1])
        self.assertEqual([frame.route for frame in instant.frames], ["map", "map"])
        self.assertIn("width=(int)64", instant.frame.media)
        # One is late, and then is missing.
        self.send(senders[0], 2)
        instant = group.acquire(timeout=DEADLINE)
        self.assertEqual((instant.frames[1], instant.states), (None, ("present", "late")))
        again = group.acquire(timeout=DEADLINE, at=instant.time)
        self.assertEqual(memoryview(again.frame.raw)[0], 2)
        self.refuses(gpudirect.Invalid, "no member has a frame", group.acquire, timeout=0, at=20_000_000 * 90)
        self.assertIsNone(group.poll())
        self.refuses(gpudirect.Timeout, "no instant in time", group.acquire, timeout=0.01)
        for number in (3, 4):
            for sender in senders:
                self.send(sender, number)
        until("both came", lambda: all(member["frames"] >= 3 for member in group.info["members"]))
        self.assertEqual(group.acquire(timeout=DEADLINE, newest=True).time, 80_000_000)
        self.assertEqual(group.info["instants"], 3)
        for sender in senders:
            sender.send_eos()
        self.assertEqual(list(group), [])

    def test_kill(self):
        names = [self.address + "-main", self.address + "-backup"]
        base = time.monotonic_ns()
        with self.group(names, "any", timeout=DEADLINE) as group, \
                process(SENDER, names[0], MEDIA, str(base), "1") as main:
            self.assertEqual(next(group).frame.offset, 1)
            with process(SENDER, names[1], MEDIA, str(base), "1"):
                # It begins with the first instant, too.
                until("the backup is in step",
                      lambda: self.take(group) and group.info["members"][1]["frames"] >= self.last)
                main.kill()
                main.wait(DEADLINE)
                until("the backup is taken", lambda: self.take(group) == 1)
                for _ in range(5):
                    self.take(group)
                self.assertEqual(group.info["switches"], 1)
                self.assertEqual(group.info["discontinuities"], 1)  # the first

    def take(self, group):
        """Takes an instant, which is the next one. Returns its member, as true as it can."""
        instant = next(group)
        last = getattr(self, "last", 1)
        self.assertEqual(instant.frame.offset, last + 1)
        self.assertEqual(memoryview(instant.frame.raw)[0], (last + 1) % 256)
        self.last = last + 1
        return instant.member or "main"

    def test_preferred(self):
        senders, group = self.pair("any")
        for number in range(1, 5):
            group.preferred = number % 2
            for sender in senders:
                self.send(sender, number)
            until("both came", lambda: all(member["frames"] >= number for member in group.info["members"]))
            self.assertEqual(group.acquire(timeout=DEADLINE).member, number % 2)
        with self.assertRaises(ValueError):
            group.preferred = 2
        with self.assertRaises(TypeError):
            group.preferred = "main"

    def test_async(self):
        senders, group = self.pair()

        async def receive():
            return [instant.time async for instant in group]

        async def send():
            for number in (1, 2, 3):
                for sender in senders:
                    self.send(sender, number)
                await asyncio.sleep(0.01)
            for sender in senders:
                sender.send_eos()

        async def both():
            return (await asyncio.wait_for(asyncio.gather(receive(), send()), DEADLINE))[0]

        self.assertEqual(asyncio.run(both()), [20_000_000, 40_000_000, 60_000_000])

    def test_refusals(self):
        self.refuses(TypeError, "a list of addresses", gpudirect.Group, "cam1")
        self.refuses(ValueError, "mode", gpudirect.Group, ["cam1"], "some")
        self.refuses(ValueError, "2 addresses, and 1 devices", gpudirect.Group, ["a", "b"], device=["host"])
        self.refuses(ValueError, "1 to 16", gpudirect.Group, [])
        self.refuses(ValueError, "1 to 16", gpudirect.Group, ["a"] * 17)
        self.refuses(gpudirect.Invalid, "history", gpudirect.Group, ["a"], device="host", history=9)
        self.refuses(gpudirect.NoDevice, "", gpudirect.Group, ["a", "b"], device=["host", "cuda:77"])
        self.refuses(TypeError, "", gpudirect.Group, [1, 2], device="host")

    def test_close_ends_a_wait(self):
        group = self.group([self.address])
        raised = []

        def wait():
            try:
                group.acquire()
            except gpudirect.Closed as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        group.close()
        thread.join(DEADLINE)
        self.assertEqual(len(raised), 1)
        self.assertTrue(group.closed)
        self.refuses(gpudirect.Closed, "the group is closed", group.poll)


if __name__ == "__main__":
    support.main()
