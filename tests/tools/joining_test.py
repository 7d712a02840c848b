# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Receivers that come and go while a sender sends, by tools-joining: it checks itself that every frame arrives whole
and none is dropped. The intervals between frames are shown and not judged.

    joining_test.py TOOLS-JOINING [FAKE-CUDA]
"""

import re
import sys

from tool import SMALL, check, run

PROGRAM, *FAKE_CUDA = sys.argv[1:]
WAYS = [([], "host to host by map, 320x180 UYVY at 200/s: 6 joined and left", {})]
if FAKE_CUDA:
    WAYS.append((["--from", "cuda:0", "--to", "cuda:0,cuda:1"], "cuda:0 to cuda:0,cuda:1 by ",
                 {"LD_LIBRARY_PATH": FAKE_CUDA[0], "GPUD_FAKE_CUDA_DEVICES": "2", "GPUD_FAKE_CUDA_STRICT": "exit"}))
for more, words, env in WAYS:
    text = run(PROGRAM, *SMALL, "--join", "6", *more, env=env)[0]
    print(text)
    rows = re.findall(r"^  (sender|receiver that stays) +(\d+) +(\d+) +(\d+) +(\d+)$", text, re.MULTILINE)
    check(words in text and len(rows) == 2, f"the text is {text}")
    for who, *values in rows:
        ladder = [int(value) for value in values]
        check(0 < ladder[0] and ladder == sorted(ladder), f"intervals of the {who}: {ladder}")
