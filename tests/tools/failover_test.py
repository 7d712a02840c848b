# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --failover: the main of two senders is killed, and its backup's frames arrive. How long that takes,
and how many frames a busy machine loses, is shown and not judged; a dead backup or receiver ends the run with a
sentence."""

import os
import signal
import time

from tool import BENCH, SMALL, Running, check, children, run, run_json, wait_for

for shape in ("group", "standby"):
    result = run_json(BENCH, *SMALL, "--failover", shape, "--frames", "60", "--warmup", "5", "--fps", "100")
    check(result["failover"] == shape and result["fps"] == 100 and result["repeated"] == 0, f"{shape}: {result}")
    check(0 < result["frames_of_backup"] < result["frames"] <= 65, f"{shape}: {result}")
    check(result["frames"] + result["missing"] <= 65 and 0 < result["gap_us"] <= result["interval_us_max"], f"{result}")
text = run(BENCH, *SMALL, "--failover", "group", "--frames", "20")[0]
check("the main sender is killed, by group: 320x180" in text and "missing" in text, f"the text is {text}")

for role, number in (("failover-receiver", 0), ("failover-sender", 1)):
    bench = Running(*SMALL, "--failover", "group", "--frames", "500", "--fps", "50")
    there = wait_for("all three", lambda: (found := children(bench.process.pid)) and len(sum(found.values(), [])) == 3
                     and found)
    time.sleep(0.5)
    os.kill(sorted(there[role])[number], signal.SIGKILL)
    status, err = bench.end()
    check(status == 1 and "killed by signal 9" in err, f"a dead {role}: {status}, {err!r}")
