# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Receivers that come and go while a sender sends, by tools-joining: it checks itself that every frame arrives whole
and none is dropped. The intervals between frames are shown and not judged. With frames that have come, and receivers
that have left, no thread spins. A program that is ended leaves nothing behind.

    joining_test.py TOOLS-JOINING [FAKE-CUDA HIP-SHIM]
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

from tool import DEADLINE, SMALL, check, run, wait_for

PROGRAM, *DRIVERS = sys.argv[1:]
WAYS = [("host", "host", "map")] + [(f"{vendor}:0", f"{vendor}:0,{vendor}:1", "map,peer")
                                    for vendor in ("cuda", "hip") if DRIVERS]
ENV = {"LD_LIBRARY_PATH": ":".join(DRIVERS), "GPUD_FAKE_CUDA_DEVICES": "2", "GPUD_FAKE_CUDA_STRICT": "exit",
       "GPUD_HIP_SHIM_VERSION": "60000000"} if DRIVERS else {}
for source, to, routes in WAYS:
    text = run(PROGRAM, *SMALL, "--join", "6", "--from", source, "--to", to, env=ENV)[0]
    print(text)
    rows = re.findall(r"^  (sender|receiver that stays) +(\d+) +(\d+) +(\d+) +(\d+)$", text, re.MULTILINE)
    words = f"{source} to {to} by {routes}, 320x180 UYVY at 200/s: 6 joined and left"
    check(words in text and len(rows) == 2, f"the text is {text}")
    for who, *values in rows:
        ladder = [int(value) for value in values]
        check(0 < ladder[0] and ladder == sorted(ladder), f"intervals of the {who}: {ladder}")
    idle = float(re.search(r"without frames: ([\d.]+) %", text)[1])
    check(idle < 3, f"{source} to {to}: {idle} % of a processor without frames")

for number in (signal.SIGINT, signal.SIGTERM):
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TMPDIR": folder}
        program = subprocess.Popen([PROGRAM, *SMALL, "--fps", "1"], env=env, stderr=subprocess.PIPE, text=True)
        wait_for("its socket", lambda: list(os.scandir(folder)) and os.listdir(next(os.scandir(folder)).path))
        program.send_signal(number)
        err = program.communicate(timeout=DEADLINE)[1]
        check(program.returncode == 1 and f"interrupted by signal {number.value}" in err, f"{number}: {err}")
        check(not os.listdir(folder), f"{number} leaves {os.listdir(folder)}")
