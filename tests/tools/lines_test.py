# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Pictures that are handed over while they are written, by tools-lines. That each stripe arrived, the program checks
itself; how long it takes is shown and not judged.

    lines_test.py TOOLS-LINES
"""

import os
import re
import sys

from tool import SMALL, check, run

os.environ["OPENCL_LAYERS"] = os.environ["GPUDIRECT_BUILD"] + "/plugins/dgma-layer/libgpudirect-dgma-layer.so"
PROGRAM = sys.argv[1]
LINES = ["--lines", "6", *SMALL, "--frames", "20", "--warmup", "2"]


def refused(text, *args):
    out, err = run(PROGRAM, *args, status=1)
    check(text in err and not out, f"{args} is refused with {err!r}, which does not say {text!r}")


def check_figures(first_line, ways, *args):
    text = run(PROGRAM, *LINES, *args)[0]
    print(text)
    check(first_line in text, f"the text is {text}")
    check(re.findall(r"^  (\w+) +whole", text, re.MULTILINE) == ways, f"the ways are not {ways}:\n{text}")
    values = [float(value) for value in re.findall(r" ([\d.]+) ms", text.split("\n", 1)[1])]
    check(len(values) == 10 * len(ways) and all(value > 0 for value in values), f"the figures are {values}")


refused("1 to 180 are possible", "--lines", "181", *SMALL)
refused("1 to 180 are possible", "--lines", "-1", *SMALL)
refused("a target alone", *LINES, "--from", "opencl:0", "--to", "host")
refused("there is no opencl:200", *LINES, "--from", "opencl:200")
refused("only between GPUs of one vendor", *LINES, "--route", "peer")
check_figures("host to host by map", ["link", "target"])
check_figures("opencl:0 to opencl:0", ["target"], "--from", "opencl:0")
check_figures("host to opencl:0 by staged", ["link"], "--from", "host", "--to", "opencl:0")
check_figures("written in 10.0 ms, in 6 stripes", ["link", "target"], "--fps", "100")
