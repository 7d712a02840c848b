# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --lines: pictures that are handed over while they are written. That each stripe arrived, the tool
checks itself."""

import os

from tool import BENCH, SMALL, check, refused, run, run_json

os.environ["OPENCL_LAYERS"] = os.environ["GPUDIRECT_BUILD"] + "/plugins/dgma-layer/libgpudirect-dgma-layer.so"

LINES = ["--lines", "6", *SMALL, "--frames", "20", "--warmup", "2"]

refused(2, "1 to 180 are possible", "--lines", "181", *SMALL)
refused(2, "1 to 180 are possible", "--lines", "-1", *SMALL)
refused(2, "one plane", *LINES, "--format", "NV12")
refused(2, "a target alone", *LINES, "--from", "opencl:0", "--to", "host")
refused(2, "in one process", *LINES, "--to", "rdma://127.0.0.1:7174")
refused(2, "in one process", *LINES, "--to", "host,host")
refused(2, "--lines goes with", *LINES, "--receivers", "2")
refused(1, "there is no opencl:200", *LINES, "--from", "opencl:200")


def check_figures(result, *ways):
    keys = {f"{way}_{how}_{what}_us" for way in ways for how in ("whole", "lines")
            for what in ("first_line", "all", "all_p99", "all_slow", "all_slow_p99")}
    check(set(result) == keys and all(value > 0 for value in result.values()), f"the result is {result}")


check_figures(run_json(BENCH, *LINES), "link", "target")
check_figures(run_json(BENCH, *LINES, "--from", "opencl:0"), "target")
check_figures(run_json(BENCH, *LINES, "--from", "host", "--to", "opencl:0"), "link")
refused(1, "only between GPUs of one vendor", *LINES, "--route", "peer")
text = run(BENCH, *LINES, "--from", "host", "--to", "opencl:0")[0]
check("host to opencl:0 by staged" in text, f"the text is {text}")
text = run(BENCH, *LINES, "--fps", "100")[0]
check("written in 10.0 ms, in 6 stripes" in text and "by lines" in text, f"the text is {text}")
