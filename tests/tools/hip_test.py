# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The tools with HIP devices, on the runtime that is made of CUDA's driver: gpudirect-bench does with them what it does
with CUDA devices."""

import os
import subprocess
import tempfile

from gpus import CEILINGS, SMALL, check_ceilings, check_run, check_vendor
from tool import BENCH, INFO, check, refused, run, run_json

os.environ["LD_LIBRARY_PATH"] = f"{os.environ['GPUDIRECT_FAKE_CUDA']}:{os.environ['GPUDIRECT_HIP_SHIM']}"
os.environ["GPUD_FAKE_CUDA_DEVICES"] = "3"
os.environ["GPUD_HIP_SHIM_VERSION"] = "60000000"

check_vendor("hip")

# Before 6.0 the runtime exports no memory that another process could map, and frames are copied within the GPU.
result = run_json(BENCH, *SMALL, "--from", "hip:0", "--to", "hip:0", "--frames", "50",
                  env={"GPUD_HIP_SHIM_VERSION": "50200000"})
check_run(result, "peer", 50, 1)
check_ceilings(result, "copy", CEILINGS)

# Where streams do not wait for words, the ceiling is that of words between processes; the rest is measured all the
# same, and the GPU is asked whether it is done.
for how in ("none", "refuse"):
    env = {"GPUD_HIP_SHIM_WAIT": how}
    result = run_json(BENCH, *SMALL, "--from", "hip:0", "--to", "hip:0", "--frames", "50", env=env)
    check_run(result, result["route"], 50, 0)
    check_ceilings(result, "words", CEILINGS - {"marker", "handoff"})
    result = run_json(BENCH, *SMALL, "--from", "hip:0", "--to", "hip:1", "--frames", "30", "--fps", "60", env=env)
    check_run(result, result["route"], 30, 1)
    check([each["key"] for each in result["ceilings"]] == ["wake"], f"{how}: {result['ceilings']}")
    check(result["latency_us"]["p50"] > 0, f"{how}: {result['latency_us']}")

# From vendor to vendor: each end by its own driver, and the ceilings are the sender's.
for source, to, route in (("hip:0", "cuda:1", "staged"), ("cuda:0", "hip:1", "staged-push")):
    result = run_json(BENCH, *SMALL, "--from", source, "--to", to, "--verify", "full", "--frames", "50")
    check_run(result, route, 50, 2)
    check_ceilings(result, "download", CEILINGS)
    check(all(result["marking_us_per_frame"][side] > 0 for side in ("sender", "receiver")), f"{source} to {to}")

text = run(BENCH, *SMALL, "--from", "hip:0", "--to", "hip:0", "--frames", "50")[0]
for words in ("hip:0 → hip:0, route map", "of it marking, us/frame", "raw copies of the same frame within the GPU",
              "reference: words from stream to stream", "half of a round trip"):
    check(words in text, f"the text lacks {words!r}:\n{text}")
refused(2, "8 lines", "--from", "hip:0", "--width", "512", "--height", "7")
refused(1, "hip:9", "--from", "hip:9", *SMALL)
if not os.path.exists("/dev/kfd"):
    err = run(BENCH, "--from", "hip:0", status=1, env={"LD_LIBRARY_PATH": ""})[1]
    check("no HIP runtime" in err or "the HIP runtime finds no" in err, f"without a GPU of AMD's: {err}")

# Elements have no HIP memory of their own that the bench knows: the CPU writes and reads there, and says so.
with tempfile.TemporaryDirectory() as folder:
    os.environ["GST_REGISTRY"] = folder + "/registry.bin"
    if subprocess.run(["gst-inspect-1.0", "gpudirectsink"], capture_output=True, timeout=60).returncode == 0:
        result = run_json(BENCH, *SMALL, "--elements", "--from", "hip:0", "--to", "hip:0", "--frames", "50")
        check(result["route"] == "map" and result["lost"] == 0 and result["torn"] == 0, f"elements: {result['route']}")
        check("mapped buffer" in result["latency_us"]["of"], f"elements: {result['latency_us']}")

# gpudirect-info measures links between them, by the same copies.
links = {(link["from"], link["to"]): link for link in run_json(INFO, "--measure")["links"]}
for pair in (("hip:0", "hip:1"), ("hip:1", "hip:0"), ("cuda:0", "cuda:1")):
    check(links[pair]["measured_bytes_per_second"] > 1e6, f"{pair}: {links[pair]}")
