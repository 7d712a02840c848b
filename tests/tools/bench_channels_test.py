# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --channels: many channels in two processes, and in two each."""

from tool import BENCH, SMALL, check, refused, run, run_json

for numbers in ("0", "2000", "1,,2", "x", ",".join(["1"] * 17)):
    refused(2, "up to 16 numbers from 1 to 1024", "--channels", numbers)
for other in (["--receivers", "2"], ["--compare", "a|b"], ["--to", "host,host"], ["--elements"], ["--verify", "full"]):
    refused(2, "--channels goes with", "--channels", "2", *other)
refused(1, "there is no opencl:200", "--channels", "1", "--from", "opencl:200")

FRAMES = ["--frames", "20", "--warmup", "5"]
for numbers, apart in (([1, 3], []), ([20], ["--apart"])):
    rows = run_json(BENCH, "--channels", ",".join(map(str, numbers)), *apart, *SMALL, *FRAMES)["channels"]
    check([row["channels"] for row in rows] == numbers, f"the rows are {rows}")
    for row in rows:
        channels = row["channels"]
        check(row["processes"] == (2 * channels if apart else 2), f"processes in {row}")
        check(row["lost"] == 0 and row["frames"] + row["late"] >= 20 * channels, f"frames in {row}")
        check(0 < row["latency_us_p50"] <= row["latency_us_p99"], f"latency in {row}")
        for side in ("sender", "receiver"):
            told = row[side]
            check(told["cpu_us_per_frame"] > 0 and told["kilobytes"] > 0, f"{side} in {row}")
            check(told["threads"] >= channels * bool(apart or side == "sender"), f"threads in {row}")
            check(told["descriptors"] > 3 * channels, f"descriptors in {row}")
            check(told["idle_wakes"] >= 0, f"wakes in {row}")
text = run(BENCH, "--channels", "2", *SMALL, *FRAMES)[0]
check("320x180 UYVY at 60/s a channel" in text and "idle wakes" in text, f"the text is {text}")
