# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""OpenGL's elements on both sides of ours, with a software renderer: whole pictures, and sinks and mixers that end."""

import os
import shutil
import subprocess

from chains import ALL, Chain, Pictures, caps, check, end_of, folder, need, skip

GL = ["glupload", "!", "glcolorconvert", "!", "video/x-raw(memory:GLMemory)", "!", "gldownload", "!"]


class Display:
    """An X server without a screen."""

    def __enter__(self):
        reading, writing = os.pipe()
        self.process = subprocess.Popen(["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp"], pass_fds=[writing],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            number = pipe.readline().strip()
        check(number, "Xvfb does not start")
        os.environ |= {"DISPLAY": f":{number}", "GST_GL_WINDOW": "x11", "GST_GL_PLATFORM": "egl",
                       "LIBGL_ALWAYS_SOFTWARE": "1"}
        return self

    def __exit__(self, *exception):
        self.process.terminate()
        self.process.wait(60)


def need_renderer():
    """Skips where GStreamer cannot draw at all, which is not tested here."""
    done = subprocess.run(["gst-launch-1.0", *ALL, caps("RGBA", (49, 20)), "!", *GL, "fakesink"], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 0:
        skip(f"OpenGL does not work here: {done.stderr.strip()[:300]}")


def check_pictures(form, size, between):
    """Every picture arrives, through GL before the sink and after the source."""
    pictures = Pictures(form, size, 24)
    with Chain() as chain:
        out = chain.start("out", "gpudirectsrc", "address=a", "!", *between, caps(form, size), "!", "filesink",
                          f"location={form}")
        sender = chain.start("sender", *ALL, caps(form, size), "!", *between, "gpudirectsink", "address=a",
                             "sync=false", "slow-receiver=block", "wait-for-connection=true")
        end_of(sender, "sender")
        end_of(out, "out")
        pictures.check_all(form)


def check_windows():
    """What draws takes the stream to its end."""
    for name, line in (("sink", ["glupload", "!", "glcolorconvert", "!", "glimagesinkelement", "sync=false"]),
                       ("bin", ["glimagesink", "sync=false"]), ("mixer", ["glvideomixer", "!", "fakesink"])):
        with Chain() as chain:
            out = chain.start(name, "gpudirectsrc", "address=a", "!", *line)
            sender = chain.start("sender", *ALL, caps("NV12", (50, 20)), "!", "gpudirectsink", "address=a",
                                 "sync=false", "slow-receiver=block", "wait-for-connection=true")
            end_of(sender, "sender")
            end_of(out, name)


need({"glupload": "gstreamer1.0-gl", "gpudirectsink": "not built"})
if not shutil.which("Xvfb"):
    skip("Xvfb is not installed (xvfb)")
with folder(), Display():
    need_renderer()
    check_pictures("RGBA", (49, 20), GL)
    check_pictures("NV12", (50, 20), ["glupload", "!", "gldownload", "!"])
    check_windows()
