# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --migrate: two OpenCL devices in one process. That every frame arrived, the tool checks itself."""

import os

from tool import BENCH, SMALL, check, refused, run, run_json

os.environ.update({"POCL_DEVICES": "pthread pthread", "OPENCL_LAYERS": ""})
PAIR = ["--migrate", "--from", "opencl:0", "--to", "opencl:1"]

refused(2, "two different OpenCL devices are needed", "--migrate")
refused(2, "two different OpenCL devices are needed", "--migrate", "--from", "opencl:0", "--to", "opencl:0")
refused(2, "two different OpenCL devices are needed", "--migrate", "--from", "opencl:0", "--to", "opencl:1,opencl:2")
refused(2, "--migrate goes with", *PAIR, "--fps", "60")
refused(2, "--migrate goes with", *PAIR, "--receivers", "2")
refused(1, "there is no such OpenCL device", "--migrate", "--from", "opencl:0", "--to", "opencl:200")

result = run_json(BENCH, *PAIR, *SMALL, "--frames", "50")
keys = {"explicit_us", "implicit_us", "migrate_fps", "staged_fps", "explicit_to_implicit", "migrate_to_staged"}
check(set(result) == keys and all(value > 0 for value in result.values()), f"the result is {result}")
for ratio, of, to in (("explicit_to_implicit", "explicit_us", "implicit_us"),
                      ("migrate_to_staged", "migrate_fps", "staged_fps")):
    check(abs(result[ratio] * result[to] / result[of] - 1) < 1e-6, f"{ratio} is no ratio in {result}")
text = run(BENCH, *PAIR, *SMALL, "--frames", "50")[0]
check("320x180 UYVY" in text and "explicit to implicit" in text and "migrate to staged" in text, f"the text is {text}")
