# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""pipelines/opencv-view.py in a real window: the picture that was sent stands on the screen, and q ends it."""

import os
import shutil
import subprocess
import sys
import threading

import support
from support import DEADLINE, Case, until

support.need("cv2", "opencv")
np = support.need("numpy")
for program in ("Xvfb", "xdotool"):
    if not shutil.which(program):
        print(f"skipped: {program} is not installed (Debian: apt install xvfb xdotool)")
        sys.exit(77)

import display  # noqa: E402
import gpudirect  # noqa: E402  after the addresses are set

MEDIA = "video/x-raw,format=RGBA,width=160,height=90,framerate=30/1"
ORANGE = (250, 120, 10)


class OpenCV(Case):

    def setUp(self):
        super().setUp()
        self.display = display.Display()
        self.addCleanup(self.display.end)
        self.sender = gpudirect.Sender(self.address, media=MEDIA, device="host", slow_receiver="drop-newest")
        self.stop = threading.Event()
        thread = threading.Thread(target=self.send)
        thread.start()
        self.addCleanup(self.sender.close)
        self.addCleanup(thread.join, DEADLINE)
        self.addCleanup(self.stop.set)

    def send(self):
        while not self.stop.wait(0.02):
            with self.sender.acquire(timeout=DEADLINE) as frame:
                np.asarray(frame)[:] = (*ORANGE, 255)

    def is_shown(self, window):
        window.look()
        rows = self.display.pixels(window)
        return bool(rows) and bool(rows[0]) and rows[len(rows) // 2][len(rows[0]) // 2] == ORANGE

    def test_what_is_sent_is_shown(self):
        viewer = subprocess.Popen([sys.executable, os.environ["GPUDIRECT_PIPELINES"] + "/opencv-view.py", self.address])
        self.addCleanup(viewer.wait, DEADLINE)
        self.addCleanup(viewer.kill)
        window = display.Window(self.display)
        until("the picture is on the screen", lambda: self.is_shown(window))

        def closed():
            window.press("q")
            return viewer.poll() is not None
        until("q closes the window", closed)
        self.assertEqual(viewer.returncode, 0)


if __name__ == "__main__":
    support.main()
