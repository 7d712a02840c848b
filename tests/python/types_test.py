# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The stubs: what the package has, as mypy sees it in programs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support

PROGRAM = """
import asyncio
import gpudirect

media = "video/x-raw,format=RGBA,width=64,height=36,framerate=60/1"


def lost(error: gpudirect.PeerLost) -> None:
    print(error.status)


def receive() -> tuple[tuple[int, ...], str]:
    with gpudirect.Receiver("cam1", device="cpu", on_disconnect=lost) as receiver:
        for frame in receiver:
            return frame.shape, frame.dtype
    with gpudirect.Receiver("cam1", on_disconnect="raise") as receiver:
        return receiver.acquire(timeout=1).planes["Y"].shape, ""


async def receive_all() -> int:
    return sum([frame.width async for frame in gpudirect.Receiver("cam1")])


def send(picture: bytes) -> None:
    try:
        with gpudirect.Sender("out", media=media) as sender:
            sender.submit(picture, timeout=1, pts=0)
            with sender.acquire() as frame:
                frame.pts = 1
        boxes = gpudirect.tensor("float32", (64, 6), "boxes", batch=True)
        with gpudirect.Sender("boxes", media=[boxes]) as sender:
            sender.send({"boxes": picture}, timeout=1, pts=0)
            with sender.acquire() as frame:
                frame.batch = 1
                print(frame.tensors["boxes"].shape, boxes.shape)
    except gpudirect.AddressInUse as error:
        print(error.native, error.origin)


asyncio.run(receive_all())
"""

WRONG = """
import gpudirect

gpudirect.Receiver("cam1", on_disconnect="eos")
gpudirect.Receiver("cam1", timeout="long")
gpudirect.Sender("out").submit(b"", pts="now")
gpudirect.Receiver("cam1").acquire().shape = (1,)
gpudirect.Sender("out", media=gpudirect.tensor("float32", "64x6"))
"""

# Of what the stubs show otherwise: constructors by __init__, the methods that C has by the class that adds to them, and
# buffers, which Python sees from 3.12 on.
DIFFERENT = r"""
gpudirect\.(Group|Receiver|Sender)\.__new__
gpudirect\._Source\..*
gpudirect\.(Frame|Plane)\.__buffer__
"""


class Types(unittest.TestCase):

    def run_mypy(self, module, *words):
        return subprocess.run([sys.executable, "-m", module, *words], capture_output=True, text=True, cwd=self.folder,
                              timeout=support.DEADLINE * 2,
                              env=os.environ | {"MYPYPATH": os.environ["PYTHONPATH"].split(":")[0]})

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpud-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_program(self):
        (self.folder / "program.py").write_text(PROGRAM)
        done = self.run_mypy("mypy", "--strict", "program.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_wrong_programs(self):
        (self.folder / "wrong.py").write_text(WRONG)
        done = self.run_mypy("mypy", "--strict", "wrong.py")
        for line in range(4, 9):
            self.assertIn(f"wrong.py:{line}: error", done.stdout)

    def test_stubs_are_of_this_package(self):
        (self.folder / "different").write_text(DIFFERENT)
        done = self.run_mypy("mypy.stubtest", "--concise", "--allowlist", "different", "--ignore-unused-allowlist",
                             "gpudirect")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    support.need("mypy")
    support.main()
