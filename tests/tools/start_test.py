# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Every stage of the start of two programs by gst-launch-1.0 is found in their logs; a program that cannot start says
why. The lives of receivers of one picture are measured beside those of GStreamer's own. How long it takes is shown and
not judged."""

import os
import shutil
import subprocess

from starting import STAGES, element_exists, measure, measure_lives
from tool import check, skip

if not os.environ.get("GST_PLUGIN_PATH") or not shutil.which("gst-launch-1.0"):
    skip("gpudirectsink is not built, or gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if subprocess.run(["gst-inspect-1.0", "videotestsrc"], stdout=subprocess.DEVNULL, timeout=60).returncode != 0:
    skip("GStreamer's videotestsrc is not installed (gstreamer1.0-plugins-base)")

SMALL = "video/x-raw,format=UYVY,width=320,height=180,framerate=60/1"

sides = measure(runs=2, caps=SMALL)
for side, times in zip(("sender", "receiver"), sides):
    print(side, times)
    check(set(times) == {*STAGES, "devices", "all", "own"}, f"{side} has {sorted(times)}")
    for stage in ("process", "gstreamer", "plugin", "elements"):
        check(times[stage] > 0, f"{side}: {stage} took {times[stage]} ms")
    total = sum(times[stage] for stage in STAGES)
    check(abs(times["all"] - total) < 0.01, f"{side}: {times['all']} ms in all, the stages {total} ms")
    own = total - times["process"] - times["gstreamer"] - times["devices"]
    check(abs(times["own"] - own) < 0.01, f"{side}: {times['own']} ms of our own, should be {own} ms")
check(sides[1]["offer"] > 0 and sides[1]["link"] > 0, "a connection took no time")

lives = measure_lives(runs=2, caps=SMALL)
print(lives)
check({"gpudirectsrc", "gpudirectsrc start=oldest"} <= set(lives), f"lives are {lives}")
check(all(life > 0 for life in lives.values()), f"lives are {lives}")
for name in ("fakesrc", "shmsrc", "unixfdsrc"):
    check((name in lives) == element_exists(name), f"{name} is measured, or not, among {sorted(lives)}")

for ends, text in ((("nonsense:0", "host"), "the sender ended before its first picture"),
                   (("host", "nonsense:0"), "the receiver ended before its first picture")):
    try:
        measure(*ends, runs=1, caps=SMALL)
        check(False, f"{ends} start")
    except RuntimeError as error:
        check(text in str(error), f"{ends}: {error}")
