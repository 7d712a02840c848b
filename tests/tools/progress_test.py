# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""tools/progress.sh and progress.py: a line that is rewritten on a terminal, a line a tenth in a log, nothing when off;
what is left is estimated from the last run. And what check makes of the lines of Ninja and `meson test`."""

import contextlib
import importlib.util
import io
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

from tool import check

TOP = pathlib.Path(__file__).resolve().parents[2]
SHELL = ["sh", "-euc", f". {TOP}/tools/progress.sh; progress_begin thing; i=0; while [ $i -le 100 ]; do "
         'progress_show $i "step $i"; i=$((i + 4)); done; progress_end; echo ended']
PYTHON = [sys.executable, "-c", f"import sys; sys.path.insert(0, '{TOP}/tools'); import progress; "
          "p = progress.Progress(progress.cache_file('thing')); "
          "[p.show(i / 100, f'step {i}') for i in range(0, 101, 4)]; p.end(); print('ended')"]


def on_terminal(command, env):
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    said = b""
    with contextlib.suppress(OSError):  # EIO: its end
        while piece := os.read(fd, 4096):
            said += piece
    os.close(fd)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, f"{command[0]} fails: {said}")
    return said.decode()


for command in (SHELL, PYTHON):
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"XDG_CACHE_HOME": cache, "COLUMNS": "100"}
        first = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
        lines = first.stdout.splitlines()
        check(len(lines) == 12 and lines[0].strip() == "0 % step 0" and lines[10].strip() == "100 % step 100" and
              lines[11] == "ended" and "\r" not in first.stdout and not first.stderr, f"a log has {first}")
        remembered = pathlib.Path(cache) / "gpudirect" / "thing.seconds"
        check(float(remembered.read_text()) < 60, "how long it took is not remembered")
        remembered.write_text("300\n")
        second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True).stdout
        check("40 % step 40, about 3 min left" in second and "step 80, about 60 s left" in second, f"left: {second}")
        remembered.write_text("nonsense\n")
        said = on_terminal(command, env)
        check(said.count("\n") <= 2 and said.count("\r") >= 26 and re.search(r"\[#{10}\.{10}\] +48 % step 48|"
              r"\[#{9,10}\.{10,11}\] +48 % step 48", said), f"a terminal has {said!r}")
        said = subprocess.run(command, env=env | {"GPUDIRECT_PROGRESS": "off"}, capture_output=True, text=True,
                              timeout=60, check=True).stdout
        check(said == "ended\n" and "step" not in on_terminal(command, env | {"GPUDIRECT_PROGRESS": "off"}), "off")
        # Without a place for it there is no estimate, and nothing fails.
        subprocess.run(command, env=env | {"XDG_CACHE_HOME": "/proc/none"}, capture_output=True, timeout=60, check=True)

sys.path.insert(0, str(TOP / "tools/check-parts"))
import watch  # noqa: E402 (in that folder)

with tempfile.TemporaryDirectory() as folder:
    log = pathlib.Path(folder) / "testlog.json"
    log.with_suffix(".seconds").write_text("600")
    last = [{"name": "p:one / quick", "duration": 10}, {"name": "p:one / slow", "duration": 90}]
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        testing = watch.Testing("build", log, last)
        testing.line("1/2 p:one / quick    OK      0.10s\n")
        testing.line("something that a test says\n")
        testing.line("2/2 p:one / slow     FAIL    9.10s   exit status 1\n")
        testing.end()
    lines = said.getvalue().splitlines()
    check("   10 % build: 1 of 2 tests, about 9 min left" in lines and "something that a test says" in lines and
          "   100 % build: 2 of 2 tests, 1 failed" in lines and lines[0].startswith("1/2 p:one / quick"), f"{lines}")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        compiling = watch.Compiling("build")
        for step in range(1, 5):
            compiling.line(f"[{step}/4] Compiling C object x\n")
        compiling.end()
    check(said.getvalue().count("\n") == 4 and "100 % build: 4 of 4 steps" in said.getvalue(), f"{said.getvalue()}")

# What tools/package makes of the lines of its parts, among them those in which apt says how far it is.
import check as whole  # noqa: E402 (check-parts has a package of its own)
found = importlib.util.spec_from_file_location("make_packages", TOP / "tools/package-parts/package.py")
package = importlib.util.module_from_spec(found)
found.loader.exec_module(package)

said = io.StringIO()
with contextlib.redirect_stdout(said), tempfile.TemporaryDirectory() as cache:
    os.environ["XDG_CACHE_HOME"] = cache
    steps = package.Steps([("trixie", "amd64")], False)
    for line in ("-- a Debian of its own, which takes a minute or two\n", "-- making the source\n",
                 "-- installing what the build needs\n", "   installed 50/100\n", "   installed 100/100\n",
                 "-- building the packages for trixie on amd64\n", "   built 10/100\n", "   built 90/100\n"):
        steps.line(line)
lines = [line.strip() for line in said.getvalue().splitlines()]
check(not [line for line in lines if line.startswith(("installed", "built"))], f"its lines are shown: {lines}")
for line in ("0 % trixie amd64: a Debian of its own", "17 % trixie amd64: installing what the build needs",
             "92 % trixie amd64: building the packages"):
    check(line in lines, f"{line!r} is not among {lines}")
script = (TOP / "tools/package-parts/build").read_text()
apt_done = re.search(r"^apt_done\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)
for status, share in (("dlstatus:3:47.1:Retrieving file 3 of 20", "23"), ("pmstatus:libc6:30.2:Unpacking", "65")):
    done = subprocess.run(["sh", "-euc", f"{apt_done[0]}\nlog=$(mktemp)\necho '{status}' >$log\necho Unpacking >>$log\n"
                           "apt_done; rm $log"], capture_output=True, text=True)
    check(done.stdout == f"installed {share}/100\n", f"of {status} it makes {done}")

# The time that each part of a check took, and its halves.
said = io.StringIO()
with contextlib.redirect_stdout(said):
    whole.PARTS["build"].took = {"build": 154.4}
    whole.summary([("build", [{"name": "p:build / build builds", "result": "FAIL"}], 154.4)])
    whole.PARTS["build"].took = {"build": 154.4, "test": 20}
    whole.summary([("build", [{"name": "p:unit / one", "result": "OK"}], 174.4)])
for line in ("build +154 s  build 1", "build +174 s  154 s to build, 20 s to test: unit 1"):
    check(re.search(f"^{line}$", said.getvalue(), re.MULTILINE), said.getvalue())
