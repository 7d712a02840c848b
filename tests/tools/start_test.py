# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --start: every stage of two programs that gst-launch-1.0 starts is found in their logs."""

import os
import shutil
import subprocess

from tool import BENCH, SMALL, check, refused, run, run_json, skip

if not os.environ.get("GST_PLUGIN_PATH") or not shutil.which("gst-launch-1.0"):
    skip("gpudirectsink is not built, or gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if subprocess.run(["gst-inspect-1.0", "videotestsrc"], stdout=subprocess.DEVNULL, timeout=60).returncode != 0:
    skip("GStreamer's videotestsrc is not installed (gstreamer1.0-plugins-base)")

STAGES = ("process", "gstreamer", "plugin", "elements", "offer", "link", "frame", "picture")

result = run_json(BENCH, "--start", *SMALL, "--runs", "2", deadline=170)
check(set(result) == {"from", "to", "runs", "sender_ms", "receiver_ms"}, f"the keys are {sorted(result)}")
for side in ("sender_ms", "receiver_ms"):
    times = result[side]
    check(set(times) == {*STAGES, "devices", "all", "own"}, f"{side} has {sorted(times)}")
    for stage in ("process", "gstreamer", "plugin", "elements"):
        check(times[stage] > 0, f"{side}: {stage} took {times[stage]} ms")
    total = sum(times[stage] for stage in STAGES)
    check(abs(times["all"] - total) < 0.01, f"{side}: {times['all']} ms in all, the stages {total} ms")
    own = total - times["process"] - times["gstreamer"] - times["devices"]
    check(abs(times["own"] - own) < 0.01, f"{side}: {times['own']} ms of our own, should be {own} ms")
check(result["receiver_ms"]["offer"] > 0 and result["receiver_ms"]["link"] > 0, "a connection took no time")

text = run(BENCH, "--start", *SMALL, "--runs", "1", deadline=170)[0]
check("the plugin, its libraries" in text and "without GStreamer's own" in text, f"the text is {text}")

refused(2, "--start goes with", "--start", "--receivers", "2")
refused(2, "--start goes with", "--start", "--to", "host,host")
refused(2, "--start goes with", "--start", "--frames", "9")
refused(1, "the sender ended before its first picture", "--start", *SMALL, "--from", "nonsense:0")
refused(1, "the receiver ended before its first picture", "--start", *SMALL, "--to", "nonsense:0")
err = run(BENCH, "--start", status=1, env={"PATH": "/nowhere"})[1]
check("gstreamer1.0-tools" in err, f"without gst-launch-1.0 it says {err!r}")
