# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs commands, and ends them with all their children: at a time limit, and when check itself is ended."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

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


def run(command, limit=4 * HOUR, say=None, on_line=None, **kwargs):
    """Returns the exit status; 124: ended at the time limit. on_line gets each line that it prints."""
    print("+", say or " ".join(map(str, command)), flush=True)
    if on_line:
        kwargs |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    process = subprocess.Popen(command, cwd=kwargs.pop("cwd", TOP), start_new_session=True, **kwargs)
    reader = threading.Thread(target=lambda: [on_line(line) for line in process.stdout], daemon=True)
    if on_line:
        reader.start()
    try:
        status = process.wait(limit)
        if on_line:
            reader.join(CLEAN_UP_TIME)  # what it started may keep the pipe open
        return status
    except subprocess.TimeoutExpired:
        print(f"check: not done after {limit // 60} minutes, and ended", file=sys.stderr, flush=True)
        end(process)
        return 124
    except KeyboardInterrupt:
        end(process)
        raise


def succeeds(command, on_line=None, **kwargs):
    """Shows what the command prints only if it fails; on_line gets it, too."""
    with tempfile.TemporaryFile("w+") as output:
        def keep(line):
            output.write(line)
            on_line(line)
        how = {"on_line": keep} if on_line else {"stdout": output, "stderr": subprocess.STDOUT}
        if run(command, **how, **kwargs) == 0:
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
