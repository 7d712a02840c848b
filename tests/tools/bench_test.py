# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench on the host: what it counts is what happened."""

import json
import os
import signal
import time

import schemas
from tool import BENCH, DEADLINE, SMALL, Running, check, idle_percent, refused, run, run_json

KEYS = {"route", "fallback_reason", "frames", "fps", "lost", "torn", "dropped", "latency_us", "latency_cpu_us",
        "gigabytes_per_second", "distribution", "cpu_us_per_frame", "marking_us_per_frame", "copies", "wakes_per_frame",
        "device_waits_per_frame", "setup_ms", "lent", "ceiling", "ceilings", "ceiling_ratio", "ceiling_ratio_p99",
        "ceiling_ratio_cpu", "receivers", "parameters", "machine"}


def check_run(result, frames, receivers=1):
    check(set(result) == KEYS, f"keys are {sorted(set(result) ^ KEYS)} off")
    check(result["frames"] == frames, f"{result['frames']} frames of {frames}")
    check(result["lost"] == 0 and result["torn"] == 0, f"lost {result['lost']}, torn {result['torn']}")
    check(len(result["receivers"]) == receivers, f"{len(result['receivers'])} receivers of {receivers}")
    latency = result["latency_us"]
    ladder = [latency[key] for key in ("p50", "p90", "p99", "p999", "max")]
    check(0 < ladder[0] and ladder == sorted(ladder), f"latencies are {ladder}")
    check(result["cpu_us_per_frame"]["sender"] > 0 and result["cpu_us_per_frame"]["receiver"] > 0, "CPU time is 0")
    check(result["ceiling"]["value"] > 0 and result["ceiling"]["what"], "there is no ceiling")
    check(result["machine"]["cores"] > 0 and result["machine"]["kernel"], "the machine is not described")


def complete(result, frames):
    check(all(line["frames"] == frames and not line["missing"] for line in result["receivers"]),
          f"receivers got {[line['frames'] for line in result['receivers']]} of {frames}")


# Lent frames, mapped: nothing is copied.
result = run_json(BENCH, *SMALL, "--frames", "300")
check_run(result, 300)
complete(result, 300)
check(result["route"] == "map" and result["copies"] == {"cpu": 0, "gpu": 0}, f"copies: {result['copies']}")
check(result["lent"] == 1 and result["latency_us"]["of"] == "submit to acquire", "lent, on the host")
ratio = result["fps"] / result["ceiling"]["value"]
check(abs(result["ceiling_ratio"] / ratio - 1) < 1e-6 and result["ceiling"]["key"] == "words", "ratio to words")
# No bytes go across: none are counted, and no copy is what that is compared with.
ratios = {each["key"]: each["ratio"] for each in result["ceilings"]}
check(result["gigabytes_per_second"] is None and ratios == {"memcpy": None, "words": result["ceiling_ratio"]},
      f"{result['gigabytes_per_second']} GB/s where nothing is copied, ratios {ratios}")

# Foreign ones cost one copy, every byte arrives, also in a frame of odd size, and by another route.
for more in (["--route", "staged"], ["--format", "I420", "--width", "319", "--height", "177"]):
    result = run_json(BENCH, *SMALL, *more, "--frames", "200", "--source", "foreign", "--verify", "full")
    check_run(result, 200)
    complete(result, 200)
    check(result["route"] == ("staged" if "--route" in more else "map"), f"goes by {result['route']}")
    check(result["copies"] == {"cpu": 1, "gpu": 0} and result["lent"] == 0, f"foreign: {result['copies']}")
    check(result["gigabytes_per_second"] > 0 and result["ceiling"]["key"] == "memcpy", f"foreign: {result['ceiling']}")

# Tensors, mapped and copied, and what cannot be one.
for more in ([], ["--source", "foreign", "--verify", "full", "--receivers", "2"]):
    result = run_json(BENCH, "--media", "tensor", "--bytes", "64KiB", "--frames", "100", *more)
    check_run(result, 100, 1 + ("--receivers" in more))
    complete(result, 100)
    check(result["parameters"]["media"] == "tensor" and result["parameters"]["frame_bytes"] == 65536, "not a tensor")
    check(result["setup_ms"]["sender"] > 0 and result["setup_ms"]["receiver"] > 0, f"made in {result['setup_ms']}")
for text in ("", "100", "64 KiB", "-1", "3GiB", "0", "99999999999999999999GiB"):
    refused(2, "a multiple of 128 is needed", "--media", "tensor", "--bytes", text)
refused(2, "--bytes goes with --media tensor", "--bytes", "1MiB")
for more in (["--elements"], ["--width", "320"], ["--format", "UYVY"]):
    refused(2, "--media tensor goes with --bytes", "--media", "tensor", *more)
refused(2, "one of picture, tensor", "--media", "sound")

# Three receivers get every frame each.
result = run_json(BENCH, *SMALL, "--frames", "300", "--receivers", "3")
check_run(result, 300, 3)
complete(result, 300)

# At a pace, compared with an eventfd. No frame comes before its time, however busy the machine is; without a warm-up,
# since a late one leaves frames to catch up with.
result = run_json(BENCH, *SMALL, "--frames", "60", "--fps", "100", "--warmup", "0")
check_run(result, 60)
complete(result, 60)
check(0 < result["fps"] < 100.1, f"{result['fps']} frames/s at a pace of 100")
check(result["ceiling"]["unit"] == "us" and result["ceiling"]["p99"] > 0, f"the ceiling is {result['ceiling']}")
check(abs(result["ceiling_ratio"] * result["ceiling"]["value"] / result["latency_us"]["p50"] - 1) < 1e-6, "ratio")
check(run_json(BENCH, *SMALL, "--frames", "5", "--fps", "60000/1001")["parameters"]["fps"] == 60000 / 1001, "rate")

# Connected, and no frames: no thread spins. One that did would use all the CPU time that others leave.
for receivers in (1, 2):
    for role, percent in idle_percent(*SMALL, receivers=receivers).items():
        check(0 <= percent < 3, f"the {role} takes {percent} % of a processor without frames")

# What a warm-up lost is not caught up in the section that is measured: that has a pace of its own.
bench = Running("--json", *SMALL, "--fps", "20", "--frames", "20", "--warmup", "60")
sender = bench.wait_for_receivers(1)["sender"][0]
os.kill(sender, signal.SIGSTOP)
time.sleep(5)  # longer than all frames take
os.kill(sender, signal.SIGCONT)
result = schemas.require("bench.json", json.loads(bench.process.communicate(timeout=DEADLINE)[0]), "bench")
check(0 < result["fps"] < 20.1, f"{result['fps']} frames/s at a pace of 20 after a warm-up that stood still")

# Drops by policy are no loss, and are told apart.
result = run_json(BENCH, *SMALL, "--frames", "3000", "--slow-receiver", "drop-newest", "--receivers", "2")
check(result["lost"] == 0 and result["torn"] == 0, f"dropping loses {result['lost']}, tears {result['torn']}")
check(sum(line["missing"] for line in result["receivers"]) == result["dropped"], "drops are not what is missing")

# Several runs, summed up.
result = run_json(BENCH, *SMALL, "--frames", "100", "--runs", "3")
check(len(result["runs"]) == 3, f"{len(result['runs'])} runs of 3")
for each in result["runs"]:
    check_run(each, 100)
fps = sorted(each["fps"] for each in result["runs"])
check(result["summary"]["fps"] == {"median": fps[1], "min": fps[0], "max": fps[2]}, "the summary is of other runs")

text = run(BENCH, *SMALL, "--frames", "100", "--receivers", "2")[0]
for words in ("host → host, route map", "throughput, frames/s", "reference, frames/s", "ratio to it",
              "latency p99.9, us", "CPU sender", "copies by CPUs", "lost 0, torn 0, dropped 0",
              "  reference: words to another process", "machine: "):
    check(words in text, f"the text lacks {words!r}")
check("GB/s" not in text, f"GB/s of frames that are not copied:\n{text}")
check("Exit status" in run(BENCH, "--help")[0], "--help does not explain the exit status")
check(run(BENCH, "--version")[0].startswith("gpudirect-bench "), "--version")
