# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""How tests in Python fail, are skipped, and wait."""

import sys
import time


def check(condition, text):
    if not condition:
        print(f"FAILED: {text}", file=sys.stderr)
        sys.exit(1)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def wait_for(what, condition, seconds=60):
    """The first value of the condition that is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    check(False, f"waited {seconds} s in vain for {what}")
