# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""torch and GStreamer, bit-exact: what a pipeline sends is a tensor, and a tensor is what a pipeline receives."""

import os
import subprocess

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


if __name__ == "__main__":
    support.main()
