# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What gpudirect-bench says of the GPUs of any vendor whose driver it compares with."""

from tool import BENCH, check, run_json

# Strides of GStreamer's CUDA memory are those of plain memory at this width.
SMALL = ["--width", "512", "--height", "96"]
CEILINGS = {"copy", "download", "upload", "marker", "handoff", "words"}


def check_run(result, route, frames, copies, receivers=1, by_cpu=0):
    check(result["route"] == route, f"{result['parameters']['from']} goes by {result['route']}, not {route}")
    check(result["lost"] == 0 and result["torn"] == 0, f"{route}: lost {result['lost']}, torn {result['torn']}")
    check([line["frames"] for line in result["receivers"]] == [frames] * receivers, f"{route}: {result['receivers']}")
    # A receiver copies ahead: when its measured section begins, it may have counted as many copies of frames inside as
    # the ring has slots. In twenty frames that is a part of a copy each, but never a whole one.
    for who, wanted in (("gpu", copies), ("cpu", by_cpu)):
        check(abs(result["copies"][who] - wanted) < 0.5, f"{route}: {result['copies']} copies, {wanted} by the {who}")
    check(result["device_waits_per_frame"]["sender"] is not None, f"{route}: waits for the device are not counted")


def check_ceilings(result, main, all_of_them):
    """All of them are there, and the run is compared with the main one."""
    ceilings = {each["key"]: each for each in result["ceilings"]}
    check(result["ceiling"]["key"] == main, f"{main} is no ceiling of {result['ceiling']}")
    check(set(ceilings) == all_of_them, f"{main}: ceilings are {sorted(ceilings)}")
    check(all(each["value"] > 0 and each["what"] for each in ceilings.values()), f"{main}: {ceilings}")
    check(abs(ceilings[main]["ratio"] * ceilings[main]["value"] / result["fps"] - 1) < 1e-6, f"{ceilings[main]}")
    check(abs(result["ceiling_ratio"] / ceilings[main]["ratio"] - 1) < 1e-6, f"{main}: {result['ceiling_ratio']}")
    check("marker" not in ceilings or ceilings["marker"]["ratio"] is None, "a rate is compared with a time")


def check_vendor(vendor, env=None):
    """The ways from and to the GPUs of one vendor, of which there are three at least: marks are written and read by
    streams, and no frame comes to a CPU."""
    first, second = f"{vendor}:0", f"{vendor}:1"
    for to, route, copies, main, all_of_them in (
            (first, "map", 0, "words", CEILINGS), (second, "peer", 1, "peer", CEILINGS | {"peer"}),
            ("host", "staged", 1, "download", CEILINGS)):
        result = run_json(BENCH, *SMALL, "--from", first, "--to", to, "--frames", "100", env=env)
        check_run(result, route, 100, copies)
        check(result["lent"] == 1, f"{first} to {to}: {result['lent']} of the frames were lent")
        check_ceilings(result, main, all_of_them)
        check(result["marking_us_per_frame"]["sender"] > 0, f"{first} to {to}: no marks are written apart")
        if to != "host":
            check(result["marking_us_per_frame"]["receiver"] > 0, f"{first} to {to}: no marks are read by streams")
            # Without a pace the time at which the GPU saw a frame is not measured.
            check(result["latency_us"]["p50"] is None and result["latency_cpu_us"]["p50"] > 0,
                  f"{first} to {to}: {result['latency_us']}, {result['latency_cpu_us']}")

    # Every byte, foreign memory, and a list of devices.
    result = run_json(BENCH, *SMALL, "--from", first, "--to", f"{first},{second},{vendor}:2", "--receivers", "3",
                      "--verify", "full", "--source", "foreign", "--frames", "40", env=env)
    check_run(result, result["route"], 40, 3, 3)
    check(result["ceiling"]["key"] == "fan_out" and result["lent"] == 0, f"fan-out: {result['ceiling']}")
    result = run_json(BENCH, *SMALL, "--from", "host", "--to", second, "--verify", "full", "--frames", "40", env=env)
    # HIP pins no pages that may only be read, as the host's ring may.
    check_run(result, "staged", 40, 1, by_cpu=int(vendor == "hip"))
    check_ceilings(result, "upload", CEILINGS)

    # At a pace: when the CPU had it, and when the GPU saw it.
    result = run_json(BENCH, *SMALL, "--from", first, "--to", second, "--frames", "30", "--fps", "60", env=env)
    check_run(result, "peer", 30, 1)
    check(0 < result["latency_cpu_us"]["p50"] <= result["latency_us"]["p50"], f"{result['latency_us']}")
    check("the GPU's sight" in result["latency_us"]["of"], f"{vendor}: latency is of {result['latency_us']['of']}")
    check([each["key"] for each in result["ceilings"]] == ["wake", "marker", "handoff"], f"{result['ceilings']}")
