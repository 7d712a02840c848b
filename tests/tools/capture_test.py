# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""tools-capture-age, in the guest, on the kernel's test card: the time in its pictures, beside its stamps.

    capture_test.py TOOLS-CAPTURE-AGE
"""

import json
import subprocess
import sys

PROGRAM = sys.argv[1]
CARD = "/dev/video0"


def check(good, *what):
    if not good:
        print("FAILED:", *what)
        sys.exit(1)


def control(**values):
    for name, value in values.items():
        said = subprocess.run(["v4l2-ctl", "-d", CARD, "-c", f"{name}={value}"], capture_output=True, text=True)
        check(not said.stderr, name, said.stderr)


def run(*options, status=0):
    done = subprocess.run([PROGRAM, *options], capture_output=True, text=True, timeout=120)
    check(done.returncode == status, options, done.returncode, done.stdout, done.stderr)
    return done


def bench(*options):
    base = ["v4l2://" + CARD, "--width", "320", "--height", "180", "--fps", "60", "--frames", "40"]
    return json.loads(run(*base, "--warmup", "12", *options).stdout)


def check_latency(what, value):
    check(value and value["p50"] <= value["p99"] <= value["max"] < 10e6, what, value)


# Each number is the driver's, each time is of before it came: the two bounds are as far apart as the clock's begin is.
control(test_pattern=0, osd_text_mode=1, timestamp_source=1)
told = bench("--route", "userptr")
print(json.dumps(told, indent=1))
check(told["path"] == "v4l2-userptr" and told["device"] == "host" and told["driver"] == "vivid", "path")
check(told["frames"] == told["pictures_right"] == 40 and told["pictures_timed"] >= 30, "numbers of pictures")
check(told["no_picture_clock"] is None and told["stamps"] == "start-of-exposure", "clocks")
check(told["copies_cpu"] == told["copies_gpu"] == told["corrupted"] == 0 and told["cpu_us_per_frame"] > 0, "counts")
check_latency("stamps", told["latency_stamps_us"])
check_latency("at most", told["latency_picture_at_most_us"])
check_latency("at least", told["latency_picture_at_least_us"])
check(0 < told["latency_picture_at_least_us"]["p50"] + 4000, "older than nothing, to a tick", told)
# Both are of the same frames: a picture is drawn within the time that its stamp is old, to a tick or two.
check(told["latency_picture_at_least_us"]["p50"] <= told["latency_stamps_us"]["p50"] + 10000, "older than it", told)

# Letters in other formats are the same ones.
for picture in ("NV12", "BGRx"):
    told = bench("--format", picture, "--route", "mmap")
    check(told["format"] == picture and told["pictures_right"] == 40, told)

# What is not known is not shown.
control(osd_text_mode=2, wrap_timestamp=1)
told = bench()
check("osd_text_mode=1" in told["no_picture_clock"] and told["latency_picture_at_most_us"] is None, told)
check(told["stamps"] == "unknown" and told["latency_stamps_us"] is None, told)
told = json.loads(run("v4l2://" + CARD, "--frames", "10", "--fps", "60").stdout)
check(told["no_picture_clock"] and told["path"] and told["frames"] == 10, told)

# Frames that the driver leaves out are dropped, and no damage.
control(osd_text_mode=1, wrap_timestamp=0, timestamp_source=0, percentage_of_dropped_buffers=50)
told = bench()
check(told["dropped"] > 5 and told["pictures_right"] == 40 and told["stamps"] == "end-of-frame", told)
control(percentage_of_dropped_buffers=0)
print(run("v4l2://" + CARD, "--frames", "60").stdout)

# Without a card it says what to do.
for address, status, words in (("v4l2:///dev/video7", 1, "modprobe vivid"), ("video0", 2, "v4l2:///dev/video0")):
    check(words in run(address, status=status).stderr, address)
check("together" in run("v4l2://" + CARD, "--width", "320", status=2).stderr, "width")
for rate in ("0", "60/0", "60000/1001/1", "fast"):
    check("60000/1001" in run("v4l2://" + CARD, "--fps", rate, status=2).stderr, rate)
told = json.loads(run("v4l2://" + CARD, "--frames", "10", "--fps", "60000/1001").stdout)
check(told["frames"] == 10, told)
print("ok")
