# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The library has the probes that pipelines/monitoring/frames.bt attaches to, and, as root, bpftrace counts frames by
them."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from tool import DEADLINE, check, skip, wait_for

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "pipelines" / "monitoring" / "frames.bt"
PIPELINE = ("videotestsrc is-live=true ! video/x-raw,format=UYVY,width=320,height=180,framerate=50/1 ! "
            "gpudirectsink address=cam1").split()

notes = subprocess.run(["readelf", "-n", os.environ["GPUDIRECT_LIBRARY"]], capture_output=True, text=True, check=True)
probes = set(re.findall(r"Provider: gpudirect\s+Name: (\w+)", notes.stdout))
check(probes == {"submit", "publish", "drop", "claim", "release"}, f"the probes are {probes}")
used = set(re.findall(r"usdt:\*:gpudirect:(\w+)", SCRIPT.read_text()))
check(used == probes, f"frames.bt uses {used}")

if not shutil.which("bpftrace") or not shutil.which("gst-launch-1.0"):
    skip("the probes are there; bpftrace or gst-launch-1.0 is not installed (./tools/setup check installs them)")
works = subprocess.run(["bpftrace", "-e", "BEGIN { exit(); }"], capture_output=True, text=True, timeout=DEADLINE)
if works.returncode:
    skip(f"the probes are there; bpftrace does not work here: {works.stderr.strip()[-200:]}")

with tempfile.TemporaryDirectory() as folder:
    os.environ["XDG_RUNTIME_DIR"] = folder
    out = pathlib.Path(folder) / "out"
    sender = subprocess.Popen(["gst-launch-1.0", "-q", *PIPELINE])
    receiver = subprocess.Popen(["gst-launch-1.0", "-q", "gpudirectsrc", "address=cam1", "!", "fakesink"])
    tracers = []
    try:
        for process, counts in ((sender, ("submitted", r"published\[1\]")), (receiver, ("acquired", "released"))):
            wait_for("the library in the process", lambda: "libgpudirect.so" in
                     pathlib.Path(f"/proc/{process.pid}/maps").read_text())
            with out.open("w") as file:
                tracers.append(subprocess.Popen(["bpftrace", "-p", str(process.pid), str(SCRIPT)], stdout=file,
                                                stderr=subprocess.DEVNULL))
            for count in counts:
                wait_for(f"the number of {count}",
                         lambda: re.search(rf"^@{count}: [1-9]", out.read_text(), re.MULTILINE))
            tracers[-1].send_signal(signal.SIGINT)
            tracers[-1].wait(DEADLINE)
        check("@latency_us" in out.read_text(), "no latencies")
    finally:
        for process in (sender, receiver, *tracers):
            process.kill()
            process.wait()
