# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs the tools, and says what was expected where something else came."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import schemas

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from verdict import check, skip, wait_for

INFO = os.environ["GPUDIRECT_INFO"]
BENCH = os.environ["GPUDIRECT_BENCH"]
DEADLINE = 90

# Frames that cost nothing: these tests look at counters, not at speed.
SMALL = ["--width", "320", "--height", "180"]


def run(tool, *args, status=0, env=None, deadline=DEADLINE):
    """Standard output and standard error of a tool that must end with this status; None: with any."""
    done = subprocess.run([tool, *args], env=os.environ | (env or {}), capture_output=True, text=True, timeout=deadline)
    check(status is None or done.returncode == status,
          f"{' '.join([tool, *args])} ends with {done.returncode}, should be {status}:\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def run_json(tool, *args, status=0, env=None, deadline=DEADLINE):
    """The object that it prints, which fits its schema."""
    value = json.loads(run(tool, "--json", *args, status=status, env=env, deadline=deadline)[0])
    return schemas.require(schemas.name_of(tool, args), value, " ".join([tool, *args]))


def refused(status, text, *args):
    """gpudirect-bench ends so, says this, and prints no result."""
    out, err = run(BENCH, *args, status=status)
    check(text in err, f"{args} is refused with {err!r}, which does not say {text!r}")
    check(out == "", f"{args} is refused, but prints {out!r}")


def children(pid):
    """Process ids of the children by their role, as in {"sender": [12], "receiver": [13, 14]}."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            words = (stat.parent / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError, ValueError):
            continue
        if parent == pid and len(words) > 1 and words[1].startswith(b"@"):
            found.setdefault(words[1][1:].decode(), []).append(int(stat.parent.name))
    return found


def alive(pid):
    """Not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Running:
    """gpudirect-bench at work, with a folder for temporary files of its own."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([BENCH, *args], env=os.environ | {"TMPDIR": self.folder.name},
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_receivers(self, count):
        """Until all are there and frames flow: then the folder for sockets is gone."""
        wait_for("the receivers", lambda: len(children(self.process.pid).get("receiver", [])) == count)
        wait_for("the frames", lambda: not os.listdir(self.folder.name))
        return children(self.process.pid)

    def end(self):
        """Exit status and standard error; nothing may be left behind."""
        family = [pid for pids in children(self.process.pid).values() for pid in pids]
        _, err = self.process.communicate(timeout=DEADLINE)
        wait_for("the children's end", lambda: not any(map(alive, family)), 5)
        left = os.listdir(self.folder.name)
        check(not left, f"{left} are left behind")
        self.folder.cleanup()
        return self.process.returncode, err


def cpu_seconds(pid):
    """Of all threads of a process, in user and in kernel mode."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_percent(family, seconds=2):
    """What the processes of each role take of a processor, at most."""
    begun, before = time.monotonic(), {pid: cpu_seconds(pid) for pids in family.values() for pid in pids}
    time.sleep(seconds)
    passed = time.monotonic() - begun
    return {role: max(100 * (cpu_seconds(pid) - before[pid]) / passed for pid in pids)
            for role, pids in family.items()}


def idle_percent(*args, receivers=1, other=()):
    """What the sender and the receivers of a run take of a processor, each, after a frame, while none comes: one is
    due every five seconds. other: of a second bench, which has the receivers."""
    benches = [Running(*args, "--receivers", str(receivers), "--warmup", "0", "--frames", "3", "--fps", "0.2")]
    if other:
        benches.append(Running(*other))
    wait_for("the receivers", lambda: len(children(benches[-1].process.pid).get("receiver", [])) == receivers)
    wait_for("the frames", lambda: not os.listdir(benches[0].folder.name))
    family = children(benches[0].process.pid) | children(benches[-1].process.pid)
    time.sleep(6)
    percent = cpu_percent(family)
    benches[0].process.send_signal(signal.SIGTERM)
    ends = [bench.end() for bench in benches]
    check(all(status == 1 for status, _ in ends) and "interrupted by signal 15" in ends[0][1],
          f"benches without frames end with {ends}")
    return percent
