# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench through GStreamer elements: any pair, ours against a peer, and elements that do damage."""

import os
import shutil
import signal
import subprocess

from tool import BENCH, SMALL, Running, check, idle_percent, refused, run, run_json, skip

SINK = "shmsink socket-path={dir}/shm shm-size={bytes}"
SRC = "shmsrc socket-path={dir}/shm is-live=true"
PAIR = ["--sink", SINK, "--src", SRC + " ! {caps}"]


def there(element):
    # Not --exists: that wants GStreamer's own version number.
    return subprocess.run(["gst-inspect-1.0", element], stdout=subprocess.DEVNULL, timeout=60).returncode == 0


if not shutil.which("gst-inspect-1.0") or not there("shmsink"):
    skip("GStreamer's shmsink is not installed (gstreamer1.0-plugins-bad)")

result = run_json(BENCH, *SMALL, *PAIR, "--frames", "200", "--receivers", "3")
check(result["lost"] == 0 and result["torn"] == 0, f"shmsink: lost {result['lost']}, torn {result['torn']}")
check([line["frames"] for line in result["receivers"]] == [200] * 3, f"receivers: {result['receivers']}")
check(result["lent"] == 1, f"{result['lent']} of the frames lay in the sink's own memory")
check(result["copies"] == {"cpu": None, "gpu": None} and result["route"] is None, "counters that elements do not have")
check("push" in result["latency_us"]["of"] and result["latency_us"]["p50"] > 0, f"{result['latency_us']}")
result = run_json(BENCH, *SMALL, *PAIR, "--frames", "100", "--source", "foreign", "--verify", "full")
check(result["lost"] == 0 and result["torn"] == 0 and result["lent"] == 0, f"foreign: {result}")

# A receiver that works though it gets no frames is told from one that sleeps.
busy = "videotestsrc ! fakesink " + PAIR[3]
for source, works in ((PAIR[3], False), (busy, True)):
    percent = idle_percent(*SMALL, "--sink", SINK, "--src", source)["receiver"]
    check((percent > 3) == works, f"{source}: {percent} % of a processor without frames")

# Damage is seen, counted, and is an exit status.
result = run_json(BENCH, *SMALL, "--sink", SINK, "--src", SRC + " ! identity drop-probability=0.3 ! {caps}",
                  "--frames", "300", status=3)
check(0 < result["lost"] < 300 and result["torn"] == 0, f"dropping: lost {result['lost']}, torn {result['torn']}")
result = run_json(BENCH, *SMALL, "--sink", SINK, "--src", SRC + " ! {caps} ! videoconvert ! video/x-raw,format=YUY2",
                  "--frames", "50", status=3)
check(result["torn"] >= 50, f"converting: lost {result['lost']}, torn {result['torn']}")

# A receiver that is killed, and sources that cannot work.
bench = Running(*SMALL, *PAIR, "--fps", "20", "--frames", "20", "--warmup", "2000", "--receivers", "2")
family = bench.wait_for_receivers(2)
os.kill(family["receiver"][0], signal.SIGKILL)
status, err = bench.end()
check(status == 1 and "the receiver 1" in err, f"a dead receiver: {status}, {err!r}")
left = [name for name in os.listdir("/dev/shm") if name.startswith("shmpipe") and str(family["sender"][0]) in name]
check(not left, f"{left} are left in /dev/shm")
refused(1, "socket", *SMALL, "--sink", SINK, "--src", "shmsrc socket-path={dir}/elsewhere")

if not there("gpudirectsink"):
    skip("the part with gpudirectsink: the plugin is not built")
result = run_json(BENCH, *SMALL, "--elements", "--frames", "200", "--receivers", "2", "--verify", "full")
check(result["lost"] == 0 and result["torn"] == 0 and result["route"] == "map", f"ours: {result}")
check(result["copies"] == {"cpu": 0, "gpu": 0} and result["lent"] == 1, f"ours: {result['copies']}, {result['lent']}")
result = run_json(BENCH, *SMALL, "--elements", "--frames", "100", "--runs", "2", "--compare", SINK + " | " + PAIR[3])
check(len(result["ours"]["runs"]) == 2 and len(result["peer"]["runs"]) == 2, "two runs of each")
ours, peer = (result[side]["summary"]["fps"]["median"] for side in ("ours", "peer"))
check(abs(result["ratio"]["fps"] / (ours / peer) - 1) < 1e-6, "the ratio is of other numbers")
text = run(BENCH, *SMALL, "--elements", "--frames", "100", "--runs", "1", "--compare", SINK + " | " + PAIR[3])[0]
check("ours/peer" in text and "shmsink" in text and "gpudirectsrc" in text, f"the comparison reads\n{text}")
