# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Receivers that hand on instants together, and a main and a backup sender, one of which is killed."""

import asyncio
import gc
import sys
import threading
import time
import weakref

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

    def send(self, sender, picture, number=None):
        with sender.acquire(timeout=DEADLINE) as frame:
            memoryview(frame.raw)[:] = bytes([picture]) * frame.raw.nbytes
            frame.pts = (picture if number is None else number) * 20_000_000

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
        until("all came", lambda: [member["frames"] for member in group.info["members"]] == [4, 3])
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

    def test_freeze(self):
        """The main one's picture stands still, by its times, until it moves again."""
        senders, group = self.pair("any", freeze_timeout=0.1)
        members = []
        for number in range(1, 31):
            self.send(senders[1], number)
            self.send(senders[0], number if number <= 10 or number > 20 else 10, number)
            until("both came", lambda: all(member["frames"] >= number for member in group.info["members"]))
            instant = group.acquire(timeout=DEADLINE)
            self.assertEqual(instant.time, number * 20_000_000)
            members.append(instant.member)
            # Since number 10, which is 5 frames of 20 ms.
            self.assertEqual([member["frozen"] for member in group.info["members"]], [15 <= number <= 20, False])
        self.assertEqual(members, [0] * 14 + [1] * 6 + [0] * 10)

    def test_freeze_is_refused(self):
        self.refuses(gpudirect.Invalid, "ANY", gpudirect.Group, ["a"], "all", device="host", freeze_timeout=1)
        self.refuses(ValueError, "at least 0", gpudirect.Group, ["a"], "any", device="host", freeze_timeout=-1)
        self.refuses(TypeError, "seconds", gpudirect.Group, ["a"], "any", device="host", freeze_timeout="1")

    def test_events(self):
        events = []
        senders, group = self.pair(on_event=lambda *event: events.append(event))
        senders[1].send_event(7, b"seven")
        for sender in senders:
            self.send(sender, 1)
        self.assertTrue(group.acquire(timeout=DEADLINE).complete)
        self.assertEqual(events, [(1, 7, b"seven")])

    def test_events_that_raise(self):
        def fail(*event):
            raise LookupError("of the handler")
        senders, group = self.pair(on_event=fail)
        senders[0].send_event(7)
        for number in (1, 2):
            for sender in senders:
                self.send(sender, number)
        with self.assertRaisesRegex(LookupError, "of the handler"):
            group.acquire(timeout=DEADLINE)
        self.assertEqual(group.acquire(timeout=DEADLINE).time, 40_000_000)
        group.close()
        self.assertGreaterEqual(group.info["instants"], 1)
        self.assertEqual([member["frames"] > 0 for member in group.info["members"]], [True, True])

    def test_time(self):
        """By the number in the meta; one that is None has no instant."""
        seen = []

        def time(member, frame):
            seen.append((member, frame["meta"], frame["offset"]))
            return int(frame["meta"]) * 1000 if frame["meta"] != b"none" else None

        senders, group = self.pair(tolerance=1e-7, time=time)
        for meta in (b"none", b"5"):
            for sender in senders:
                with sender.acquire(timeout=DEADLINE) as frame:
                    frame.meta, frame.offset = meta, 3
        self.assertEqual(group.acquire(timeout=DEADLINE).time, 5000)
        self.assertEqual([member["untimed"] for member in group.info["members"]], [1, 1])
        self.assertEqual(sorted(seen), [(0, b"5", 3), (0, b"none", 3), (1, b"5", 3), (1, b"none", 3)])

    def test_time_that_raises(self):
        raised = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = lambda unraisable: raised.append(unraisable.exc_type)
        senders, group = self.pair(time=lambda member, frame: frame["nonsense"])
        self.send(senders[0], 1)
        until("it is dropped", lambda: group.info["members"][0]["untimed"] == 1)
        self.assertEqual(raised, [KeyError])

    def test_sound(self):
        """Blocks of one sender are cut where the other's ended."""
        names = [self.address + "-a", self.address + "-b"]
        sound = "audio/x-raw,format=S16LE,rate=48000,channels=1,layout=interleaved,samples-per-block=960"
        senders = [gpudirect.Sender(name, media=sound, device="host") for name in names]
        for sender in senders:
            self.addCleanup(sender.close)
        group = self.group(names, "any", timeout=DEADLINE)
        for sender in senders:
            sender.wait(1, timeout=DEADLINE)

        def send(sender, first, count):
            with sender.acquire(timeout=DEADLINE) as frame:
                frame.size = 2 * count
                memoryview(frame.raw).cast("B")[:] = b"".join(
                    (first + i).to_bytes(2, "little") for i in range(count))
                frame.pts, frame.offset = first * 1_000_000_000 // 48000, first

        send(senders[0], 0, 480)
        instant = group.acquire(timeout=DEADLINE)
        self.assertEqual((instant.member, instant.skip, len(instant)), (0, 0, 5))
        senders[0].close()
        until("it is gone", lambda: not group.info["members"][0]["connected"])
        for first in (0, 960):
            send(senders[1], first, 960)
        got = []
        for skip in (480, 0):
            instant = group.acquire(timeout=DEADLINE)
            self.assertEqual((instant.member, instant.skip, instant.discontinuity), (1, skip, False))
            got += memoryview(instant.frame.raw).cast("B").cast("H")[instant.skip:].tolist()
        self.assertEqual(got, list(range(480, 1920)))
        self.assertEqual(group.info["members"][1]["warning"], "")

    def test_options(self):
        """They are the members'."""
        names = [self.address + "-a", self.address + "-b"]
        senders = [self.sender(name) for name in names]
        self.group(names, name="both", route="map", busy_poll=-1)
        for sender in senders:
            sender.wait(1, timeout=DEADLINE)
            self.assertEqual([(link["name"], link["path"], link["encrypted"]) for link in sender.links],
                             [("both", "map", "")])
        refused = self.group(names, route="peer")
        self.refuses(gpudirect.Timeout, "peer", refused.acquire, timeout=0.2)

    def test_group_in_a_cycle(self):
        """With its own handler, which the collector finds."""
        group = gpudirect.Group([self.address], device="host", time=lambda member, frame: None)
        holder = {"group": group}
        cycle = gpudirect.Group([self.address + "-b"], device="host", on_event=lambda *event: holder["cycle"])
        holder["cycle"] = cycle
        alive = weakref.ref(cycle)
        del cycle, holder, group
        gc.collect()
        self.assertIsNone(alive())

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
