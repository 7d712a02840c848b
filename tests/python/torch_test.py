# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""torch and GStreamer, bit-exact: what a pipeline sends is a tensor, and a tensor is what a pipeline receives."""

import os
import subprocess
import sys

import support
from support import DEADLINE, Case

torch = support.need("torch")

import gpudirect  # noqa: E402  after the addresses are set

CAPS = "video/x-raw,format=RGBA,width=320,height=180,framerate=60/1"
FRAMES = 20
SHAPE = (180, 320, 4)


def made(number):
    """A picture that no other number has."""
    generator = torch.Generator().manual_seed(number)
    return torch.randint(0, 256, SHAPE, dtype=torch.uint8, generator=generator)


LOADER = f"""
import sys, torch, gpudirect
address, method = sys.argv[1:]

class Frames(torch.utils.data.IterableDataset):
    def __iter__(self):
        for frame in gpudirect.Receiver(address, device="cpu", timeout={DEADLINE}, allow_old_dlpack=True):
            yield torch.from_dlpack(frame).clone()

if __name__ == "__main__":
    with gpudirect.Sender(address, media="{CAPS}", device="cpu") as sender:
        loader = torch.utils.data.DataLoader(Frames(), None, num_workers=1, multiprocessing_context=method)
        frames = iter(loader)
        if method == "spawn":
            sender.wait(1, timeout={DEADLINE})
            for number in range(3):
                sender.submit(torch.full({SHAPE}, number, dtype=torch.uint8), timeout={DEADLINE})
            sender.send_eos()
        print([int(frame[0, 0, 0]) for frame in frames])
"""


class Torch(Case):

    def launch(self, *words):
        child = subprocess.Popen(["gst-launch-1.0", "-q", *words])
        self.addCleanup(child.wait, DEADLINE)
        self.addCleanup(child.kill)
        return child

    def path(self):
        return f"{os.environ['XDG_RUNTIME_DIR']}/{self.address}.raw"

    def read(self, path):
        with open(path, "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).reshape(-1, *SHAPE)

    def test_a_pipeline_sends(self):
        queue = ["queue", "max-size-bytes=0", "max-size-time=0", "!"]
        child = self.launch("videotestsrc", f"num-buffers={FRAMES}", "pattern=ball", "!", CAPS, "!", "tee", "name=t",
                            "!", *queue, "gpudirectsink", "sync=false", f"address={self.address}",
                            "t.", "!", *queue, "filesink", "async=false", f"location={self.path()}")
        with gpudirect.Receiver(self.address, device="host", timeout=DEADLINE, allow_old_dlpack=True) as receiver:
            received = []
            for frame in receiver:
                tensor = torch.from_dlpack(frame)
                self.assertEqual(tensor.data_ptr(), frame.native)  # it is the sender's memory
                received.append(tensor.clone())
                del tensor
            self.assertEqual(receiver.info["copies_cpu"], 0)
        self.assertEqual(child.wait(DEADLINE), 0)
        self.assertTrue(torch.equal(torch.stack(received), self.read(self.path())))
        self.assertFalse(torch.equal(received[0], received[-1]))

    def test_a_pipeline_receives(self):
        with gpudirect.Sender(self.address, media=CAPS, device="host") as sender:
            child = self.launch("gpudirectsrc", f"address={self.address}", "!", CAPS, "!", "filesink",
                                f"location={self.path()}")
            sender.wait(1, timeout=DEADLINE)
            for number in range(FRAMES):
                with sender.acquire(timeout=DEADLINE) as frame:
                    torch.from_dlpack(frame).copy_(made(number))
                    frame.pts = number * 1_000_000_000 // 60
            sender.send_eos()
            self.assertEqual(child.wait(DEADLINE), 0)
        self.assertTrue(torch.equal(self.read(self.path()), torch.stack([made(n) for n in range(FRAMES)])))

    def test_loaders(self):
        """Workers of a DataLoader receive where they are spawned; where they are forked they say so."""
        path = f"{os.environ['XDG_RUNTIME_DIR']}/loader.py"
        with open(path, "w") as file:
            file.write(LOADER)
        for method in ("spawn", "fork"):
            done = subprocess.run([sys.executable, path, self.address, method], capture_output=True, text=True,
                                  timeout=2 * DEADLINE)
            if method == "spawn":
                self.assertEqual((done.returncode, done.stdout), (0, "[0, 1, 2]\n"), done.stderr)
            else:
                self.assertEqual(done.returncode, 1)
                self.assertIn('multiprocessing_context="spawn"', done.stderr)


if __name__ == "__main__":
    support.main()
