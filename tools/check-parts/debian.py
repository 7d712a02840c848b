# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Checks what the README promises: in a fresh Debian and a bare clone, the demo and the tests need no command before
them."""

import json

import jobs
import roots

# Both run, even if the first fails.
SCRIPT = """touch $OUT/demo $OUT/check $OUT/testlog.json
./tools/demo && echo done >$OUT/demo
./tools/check --quick && echo done >$OUT/check
cp build/meson-logs/testlog.json $OUT/testlog.json || true"""


def debian(name, suite):
    try:
        status, texts = roots.run(suite, "set +e\n" + SCRIPT, files=["demo", "check", "testlog.json"])
    except roots.Unavailable as why:
        return [jobs.result(name, name, "SKIP", f"skipped: {why}")]
    if status != 0:
        return [jobs.result(name, f"a root of {suite}", "FAIL")]
    first = [jobs.result(name, f"./tools/{tool}", "OK" if "done" in texts[tool] else "FAIL")
             for tool in ("demo", "check")]
    return first + [json.loads(line) for line in texts["testlog.json"].splitlines() if line.strip()]


def debian12(name, args):
    return debian(name, "bookworm")


def debian13(name, args):
    return debian(name, "trixie")


def debian14(name, args):
    """Not released yet: newer compilers, and GStreamer 1.28 with HIP memory."""
    return debian(name, "forky")
