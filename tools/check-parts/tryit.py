#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs the lines of the README's "Try it" as they stand, after the demo, in the shell that the first of them opens. No
argument: builds, and opens it; "inside": the others."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parents[2]
TEXT = (TOP / "README.md").read_text().partition("\n## Try it\n")[2].partition("\n## ")[0]
HERE, MACHINES = ([line.partition("  #")[0].strip() for line in part.splitlines() if line.startswith("    ")]
                  for part in TEXT.split("\nBetween two machines", 1))
IN_PYTHON = re.search(r"`(for frame in .*?)`", TEXT)[1]
OPENS = "ninja -C build && meson devenv -C build"
PAGE = "http://127.0.0.1:8477/"
STEPS_MAX = 400
DEADLINE = 120


def fail(text):
    sys.exit(f"tryit: {text}")


def build():
    if HERE[0] != OPENS:
        fail(f"the README's first line is {HERE[0]!r}, and not {OPENS!r}")
    done = subprocess.run(["ninja", "-C", "build"], cwd=TOP, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"it does not build:\n{done.stdout[-4000:]}")
    counts = re.findall(r"^\[\d+/(\d+)\]", done.stdout, re.MULTILINE)
    steps = int(counts[-1]) if counts else 0
    print(f"tryit: {steps} steps to build what the demo did not")
    if steps > STEPS_MAX:
        fail(f"a user waits for {steps} steps, at most {STEPS_MAX} are wanted")


def wait_for(what, condition, running):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        for line, process in running.items():
            if process.poll() is not None:
                fail(f"{line!r} ends with {process.returncode}")
        with contextlib.suppress(OSError):  # nothing listens yet
            if condition():
                print(f"tryit: {what}", flush=True)
                return
        time.sleep(0.2)
    fail(f"waited {DEADLINE} s in vain for {what}")


def has_receiver(address):
    done = subprocess.run(["gpudirect-info", "--channels", "--json"], capture_output=True, text=True)
    return any(address in channel["address"] and channel.get("receivers")
               for channel in json.loads(done.stdout)["channels"])


def start(command):
    return subprocess.Popen(["sh", "-c", f"exec {command}"], stdin=subprocess.DEVNULL)


def inside():
    running = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        try:
            for line in HERE[1:]:
                command = line.removesuffix("&").strip()
                if command.startswith("gpudirect-info"):
                    wait_for("a receiver of cam1", lambda: has_receiver("cam1"), running)
                    print(subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout)
                else:
                    running[line] = start(command)
            wait_for("the monitor's page", lambda: b"html" in urllib.request.urlopen(PAGE).read(), running)
            wait_for("cam1 in the monitor",
                     lambda: b"cam1" in urllib.request.urlopen(PAGE + "api/state").read(), running)
            subprocess.run([sys.executable, "-c", f"import gpudirect, numpy\n{IN_PYTHON}; print(array.shape); break"],
                           check=True, timeout=DEADLINE)
            # The other machine is this one, and its key that of the first.
            key, *ends = MACHINES
            os.environ["HOME"] = folder
            subprocess.run(key, shell=True, check=True)
            for line in ends:
                running[line] = start(line.replace("studio-a", "127.0.0.1"))
            wait_for("a receiver by TCP", lambda: has_receiver("tcp://"), running)
        finally:
            for process in running.values():
                process.kill()
                process.wait()


if sys.argv[1:] == ["inside"]:
    inside()
else:
    build()
    sys.exit(subprocess.run(["meson", "devenv", "-C", "build", "python3", __file__, "inside"], cwd=TOP).returncode)
