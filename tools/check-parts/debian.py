# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Checks what the README promises: in a fresh Debian and a bare clone, the demo and the tests need no command before
them, and what it says to try works after the demo."""

import json
import pathlib
import shutil
import sys

import jobs
import roots

sys.path.insert(0, str(jobs.TOP / "tools"))
import progress  # noqa: E402 (in the folder above)

# Compiling takes most of the time, so what was compiled is kept for the next run.
CCACHE = """export CCACHE_DIR=$OUT/ccache CCACHE_MAXSIZE=1G CC="ccache gcc" CXX="ccache g++"
"""
# In the README's order, in one clone. All run, even if one fails.
SCRIPT = """touch $OUT/demo $OUT/tryit $OUT/check $OUT/testlog.json
./tools/demo && echo done >$OUT/demo
python3 tools/check-parts/tryit.py && echo done >$OUT/tryit
./tools/check --quick && echo done >$OUT/check
cp build/meson-logs/testlog.json $OUT/testlog.json || true"""


def debian(name, suite):
    cache = progress.cache_file(name).with_name(f"ccache-{suite}")
    made = cache.with_suffix(".new")
    try:
        roots.check_programs()
        for folder in (cache, made):
            folder.mkdir(parents=True, exist_ok=True)
        status, texts = roots.run(suite, "set +e\n" + CCACHE + SCRIPT, packages=["ccache"],
                                  files=["demo", "tryit", "check", "testlog.json"], bring={cache: "out/ccache"},
                                  fetch={"ccache": made})
        if any(made.iterdir()):
            shutil.rmtree(cache)
            made.rename(cache)
    except roots.Unavailable as why:
        return [jobs.result(name, name, "SKIP", f"skipped: {why}")]
    if status != 0:
        return [jobs.result(name, f"a root of {suite}", "FAIL")]
    first = [jobs.result(name, what, "OK" if "done" in texts[file] else "FAIL") for file, what in
             {"demo": "./tools/demo", "tryit": "the README's \"Try it\"", "check": "./tools/check"}.items()]
    return first + [json.loads(line) for line in texts["testlog.json"].splitlines() if line.strip()]


def debian12(name, args):
    return debian(name, "bookworm")


def debian13(name, args):
    return debian(name, "trixie")


def debian14(name, args):
    """Not released yet: newer compilers, and GStreamer 1.28 with HIP memory."""
    return debian(name, "forky")
