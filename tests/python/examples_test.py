# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The examples in pipelines/*.py, and what they say where a module is missing."""

import importlib.util
import os
import subprocess
import sys
import urllib.error
import urllib.request

import support
from support import DEADLINE, Case

np = support.need("numpy")

import gpudirect  # noqa: E402  after the addresses are set

PIPELINES = os.environ["GPUDIRECT_PIPELINES"]


class Examples(Case):

    def start(self, name, *args):
        child = subprocess.Popen([sys.executable, f"{PIPELINES}/{name}", *args], stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait, DEADLINE)
        self.addCleanup(child.kill)
        return child

    def check_gradient(self, frame, number):
        picture = np.asarray(frame)
        self.assertEqual(picture.shape, (360, 640, 4))
        self.assertTrue((picture[..., 0] == (np.arange(640) + number) % 256).all())
        self.assertTrue((picture[..., 1] == (np.arange(360) % 256)[:, None]).all())
        self.assertTrue((picture[..., 2] == number).all())

    def test_numpy_generate(self):
        child = self.start("numpy-generate.py", self.address, "20")
        with gpudirect.Receiver(self.address, device="host", timeout=DEADLINE) as receiver:
            count = 0
            for frame in receiver:
                self.check_gradient(frame, count)
                self.assertEqual(frame.pts, count * 1_000_000_000 // 30)
                count += 1
        self.assertEqual(count, 20)
        self.assertEqual(child.wait(DEADLINE), 0)

    CLOCK = """
import runpy, sys, time
elapsed = 0
def monotonic():
    return 1000 + elapsed
def sleep(seconds):
    global elapsed
    elapsed += seconds + 0.004  # and the frame takes some time
time.monotonic, time.sleep = monotonic, sleep
path, *sys.argv = sys.argv[1:]
runpy.run_path(path)
print(elapsed)
"""

    def test_numpy_generate_keeps_its_pace(self):
        """By a clock on which it sleeps too long each time: that does not add up."""
        with support.process(self.CLOCK, PIPELINES + "/numpy-generate.py", "", self.address, "91") as child, \
                gpudirect.Receiver(self.address, device="host", timeout=DEADLINE) as receiver:
            self.assertEqual(sum(1 for _ in receiver), 91)
            self.assertAlmostEqual(float(support.finish(child)), 90 / 30, delta=0.01)

    def test_router_panel(self):
        """Buttons are pressed, and the output follows; a camera that is not there changes nothing, one that ends its
        stream does not end the output, and frames keep their times."""
        inputs = [f"{self.address}-{camera}" for camera in range(3)]
        senders = [gpudirect.Sender(address, media=support.RGBA, device="host", slow_receiver="drop-oldest")
                   for address in inputs[:2]]
        child = subprocess.Popen([sys.executable, f"{PIPELINES}/router-panel.py", "0", self.address, *inputs],
                                 stdout=subprocess.PIPE, text=True)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait, DEADLINE)
        self.addCleanup(child.kill)
        receiver = gpudirect.Receiver(self.address, device="host")
        for end in (receiver, *senders):
            self.addCleanup(end.close)
        panel = child.stdout.readline().strip()
        shown = None

        def shows(camera):
            nonlocal shown
            for number, sender in enumerate(senders):
                with sender.acquire(timeout=DEADLINE) as frame:
                    np.asarray(frame)[:] = 50 * number
                    frame.pts = number
            try:
                with receiver.acquire(timeout=0.02) as frame:
                    shown = int(np.asarray(frame)[0, 0, 0]) // 50
                    self.assertEqual(frame.pts, shown)
            except gpudirect.Timeout:
                pass
            return shown == camera

        def on_air(name):
            with urllib.request.urlopen(panel, timeout=DEADLINE) as page:
                return f'red">{name}<' in page.read().decode()

        support.until("the first camera", lambda: shows(0))
        def press(name):
            urllib.request.urlopen(urllib.request.Request(panel + name, method="POST"), timeout=DEADLINE).close()

        for camera in (1, 0, 1):
            press(inputs[camera])
            support.until("the switch", lambda: shows(camera))
            self.assertTrue(on_air(inputs[camera]))
        press(inputs[2])
        for _ in range(20):
            shows(1)
        self.assertTrue(shown == 1 and on_air(inputs[1]))
        senders[1].send_eos()
        press(inputs[0])
        support.until("the other camera, behind the end of one", lambda: shows(0))
        with self.assertRaises(urllib.error.HTTPError):
            press("other")

    def check_missing(self, name, module):
        """What it says in an interpreter that does not have the module."""
        hidden = f"import sys, runpy; sys.modules[{module!r}] = None; runpy.run_path({PIPELINES + '/' + name!r})"
        done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=DEADLINE)
        self.assertIn(f"needs {'OpenCV' if module == 'cv2' else module}, which is missing", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_what_is_missing(self):
        self.check_missing("opencv-view.py", "cv2")
        for name in ("torch-detect.py", "torch-train.py", "torch-boxes.py"):
            self.check_missing(name, "torch")

    def need_torch(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("torch is not installed (Debian: apt install python3-torch)")

    def test_torch_train(self):
        """It takes every picture, learns, and ends with the stream."""
        self.need_torch()
        media = "video/x-raw,format=RGBA,width=64,height=48,framerate=30/1"
        with open(f"{os.environ['XDG_RUNTIME_DIR']}/{self.address}", "w+") as said:
            child = subprocess.Popen([sys.executable, f"{PIPELINES}/torch-train.py", self.address, "host"], stdout=said)
            self.addCleanup(child.wait, DEADLINE)
            self.addCleanup(child.kill)
            with gpudirect.Sender(self.address, media=media, device="host") as sender:
                sender.wait(1, timeout=DEADLINE)
                for number in range(164):
                    with sender.acquire(timeout=DEADLINE) as frame:
                        np.asarray(frame)[:] = 255
                        np.asarray(frame)[:24, number % 64:] = 0
            self.assertEqual(child.wait(DEADLINE), 0)
            said.seek(0)
            lines = said.read().splitlines()
        self.assertEqual([line.split()[1] for line in lines], ["0:", "10:", "20:", "30:", "40:"])
        losses = [float(line.split()[-1]) for line in lines]
        self.assertLess(losses[-1], losses[0] / 2)

    def test_torch_boxes(self):
        """Each picture comes with the boxes of it, of which some have none."""
        self.need_torch()
        media = "video/x-raw,format=RGBA,width=128,height=96,framerate=30/1"
        out = self.address + "-out"
        child = self.start("torch-boxes.py", self.address, out, "host")
        group = gpudirect.Group([out, out + "/boxes"], device="host", timeout=DEADLINE)
        self.addCleanup(group.close)
        with gpudirect.Sender(self.address, media=media, device="host") as sender:
            sender.wait(1, timeout=DEADLINE)
            seen, number = set(), 0
            while seen < {0, 1, 2, 3}:  # what comes before the group has connected is dropped
                with sender.acquire(timeout=DEADLINE) as frame:
                    np.asarray(frame)[:] = 0
                    for square in range(number % 4):
                        np.asarray(frame)[:32, 32 * square:32 * square + 32] = 200 + square
                    frame.pts = number * 33_333_333
                number += 1
                self.assertLess(number, 1000, "the pairs do not come")
                try:
                    instant = group.acquire(timeout=0.2)
                except gpudirect.Timeout:
                    continue
                if not instant.complete:
                    continue
                picture, boxes = instant.frames
                count = int(picture.pts // 33_333_333) % 4
                self.assertEqual((boxes.pts, boxes.batch), (picture.pts, count))
                self.assertEqual(int((np.asarray(picture)[0, ::32, 0] > 0).sum()), count)
                np.testing.assert_array_equal(np.asarray(boxes.tensors["boxes"]), [
                    [32 * square, 0, 32 * square + 32, 32, (3 * (200 + square)) / 3] for square in range(count)][::-1]
                    or np.zeros((0, 5)))
                seen.add(count)
        self.assertEqual(child.wait(DEADLINE), 0)

    def test_torch_detect(self):
        self.need_torch()
        media = "video/x-raw,format=RGBA,width=128,height=96,framerate=30/1"
        sender = gpudirect.Sender(self.address, media=media, device="host")
        self.addCleanup(sender.close)
        receiver = gpudirect.Receiver(self.address + "-out", device="host", timeout=DEADLINE)
        self.addCleanup(receiver.close)
        child = self.start("torch-detect.py", self.address, self.address + "-out", "host")
        self.check_detects(sender, receiver)
        # It waits for a sender that dies, and so do those that receive from it.
        sender.close()
        sender = gpudirect.Sender(self.address, media=media, device="host")
        self.addCleanup(sender.close)
        self.check_detects(sender, receiver)
        sender.send_eos()
        self.assertEqual(child.wait(DEADLINE), 0)

    def check_detects(self, sender, receiver):
        sender.wait(1, timeout=DEADLINE)
        frame = None
        while frame is None:  # what comes before the receiver has connected is dropped
            with sender.acquire(timeout=DEADLINE) as sent:
                np.asarray(sent)[:] = 0
                np.asarray(sent)[32:64, 64:96] = 200
            try:
                frame = receiver.acquire(timeout=0.2)
            except gpudirect.Timeout:
                pass
        picture = np.asarray(frame)
        self.assertEqual(picture[32, 64].tolist(), [255, 0, 0, 255])
        self.assertEqual(picture[63, 95].tolist(), [255, 0, 0, 255])
        self.assertEqual(picture[48, 80].tolist(), [200] * 4)
        self.assertEqual(picture[0, 0].tolist(), [0] * 4)


if __name__ == "__main__":
    support.main()
