# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs commands, and ends them with all their children: at a time limit, and when check itself is ended."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
HOUR = 3600
CLEAN_UP_TIME = 60
FAILURES = ["FAIL", "TIMEOUT", "INTERRUPT", "ERROR", "UNEXPECTEDPASS"]


def end_with_signals():
    """Makes SIGTERM and SIGHUP end check like Ctrl-C: its commands are ended, its folders removed."""
    def interrupt(number, frame):
        raise KeyboardInterrupt
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def end(process):
    """SIGTERM comes first, so that Meson ends running tests and mmdebstrap removes its folder."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(CLEAN_UP_TIME)
            break
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            pass


def run(command, limit=4 * HOUR, say=None, **kwargs):
    """Returns the exit status; 124: ended at the time limit."""
    print("+", say or " ".join(map(str, command)), flush=True)
    process = subprocess.Popen(command, cwd=kwargs.pop("cwd", TOP), start_new_session=True, **kwargs)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        print(f"check: not done after {limit // 60} minutes, and ended", file=sys.stderr, flush=True)
        end(process)
        return 124
    except KeyboardInterrupt:
        end(process)
        raise


def succeeds(command, **kwargs):
    """Shows what the command prints only if it fails."""
    with tempfile.TemporaryFile("w+") as output:
        if run(command, stdout=output, stderr=subprocess.STDOUT, **kwargs) == 0:
            return True
        output.seek(0)
        print("".join(output.readlines()[-200:]), file=sys.stderr, flush=True)
        return False


def result(part, name, outcome, text=""):
    """In the form of Meson's testlog.json."""
    return {"name": f"gpudirect:{part} / {name}", "result": outcome, "stdout": text}


def suites(test):
    """The suites in an entry's name, "project:suite+suite / test"; with a newer Meson "suite+suite - project:test"."""
    first, new, _ = test["name"].partition(" - ")
    return (first if new else first.split(" / ")[0].split(":")[-1]).split("+")


def short_name(test):
    name = test["name"]
    return name.partition(" - ")[2].partition(":")[2] if " - " in name else name.split(" / ")[-1]
