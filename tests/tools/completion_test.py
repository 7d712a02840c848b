# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Completion in bash offers the options that --help prints, and values that the help names; what both completions have
of their own, an option with values, exists. Zsh itself is tried where the packages are installed.

    completion_test.py TOOL...
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tool import check, run, skip

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "tools/completion"
LIMIT = 60
COMPLETE = """. "$1"
COMP_LINE=$2 COMP_POINT=${#2}
_gpudirect "${2%% *}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(line, env=None):
    done = subprocess.run(["bash", "-c", COMPLETE, "bash", FOLDER / "gpudirect.bash", line], capture_output=True,
                          text=True, timeout=LIMIT, env=os.environ | (env or {}))
    check(done.returncode == 0 and not done.stderr, f"completion of {line!r}: {done.stderr}")
    return done.stdout.splitlines()


def check_options(program, text):
    name = program.name
    options = re.findall(r"^  (?:-h, )?(--[a-z-]+=?)", text, re.MULTILINE)
    check(sorted(complete(f"{name} --")) == sorted(options), f"{name} -- completes to {complete(f'{name} --')}")
    check(complete(f"{name} --versio") == ["--version"], f"{name} --versio is not completed")
    return set(options)


def check_values(names):
    """What follows = and what follows a blank; lists; and colons, at which bash begins a word."""
    if "gpudirect-bench" in names:
        help_text = names["gpudirect-bench"]
        for option in ("route", "slow-receiver", "source", "verify", "media"):
            values = complete(f"gpudirect-bench --{option} ")
            check(len(values) > 1 and values == complete(f"gpudirect-bench --{option}="), f"--{option} has {values}")
            for value in values:
                check(re.search(rf"\b{value}\b", help_text), f"the help says nothing of --{option}={value}")
        check(complete("gpudirect-bench --to host,op") == ["host,opencl:0", "host,opencl:1"], "a list")
        check(complete("gpudirect-bench --from=opencl:") == ["0", "1"], "the part behind a colon")
        check(complete("gpudirect-bench --fps ") == [], "a number is not completed")
        check(complete("gpudirect-bench ") == [], "the bench has no arguments")
    if "gpudirect-view" in names:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a key").write_text("")
            line = f"gpudirect-view --psk-file {folder}/a"
            check(complete(line) == [f"{folder}/a key"], f"{line} completes to {complete(line)}")


def check_channels(names):
    """The addresses of senders that are there now."""
    if not shutil.which("gst-launch-1.0") or "GST_PLUGIN_PATH" not in os.environ:
        return
    with tempfile.TemporaryDirectory() as folder:
        env = {"XDG_RUNTIME_DIR": folder}
        pipeline = "videotestsrc is-live=true ! gpudirectsink address=one".split()
        sender = subprocess.Popen(["gst-launch-1.0", "-q", *pipeline], env=os.environ | env)
        try:
            end = time.monotonic() + LIMIT
            while not complete("gpudirect-info --channels ", env) and time.monotonic() < end:
                time.sleep(0.1)
            for line in ("gpudirect-info --channels ", "gpudirect-view o", "gpudirect-monitor --tui "):
                if line.split()[0] in names:
                    check(complete(line, env) == ["one"], f"{line!r} completes to {complete(line, env)}")
        finally:
            sender.kill()
            sender.wait()


if not shutil.which("bash"):
    skip("there is no bash")
programs = [pathlib.Path(program) for program in sys.argv[1:]]
os.environ["PATH"] = os.pathsep.join([*{str(program.parent) for program in programs}, os.environ["PATH"]])
help_of = {program.name: run(str(program), "--help")[0] for program in programs}
known = set()
for program in programs:
    known |= check_options(program, help_of[program.name])
if len(programs) == 4:
    for file, found in (("gpudirect.bash", r"\*/(--[a-z-]+)"), ("_gpudirect", r"'(--[a-z-]+)=")):
        named = set(re.findall(found, (FOLDER / file).read_text()))
        check(len(named) >= 5, f"{file} names the options {named}")
        check(not {f"{option}=" for option in named} - known, f"{file} names {named - known}, which no tool has")
check_values(help_of)
check_channels(help_of)
print(f"{len(known)} options of {len(programs)} tools")
