# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What gpudirect-monitor costs: the same channels without it, and beside it with a picture a second of each, as its
page asks for them. Each sender and each receiver is a process of its own."""

import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import tempfile
import time
import urllib.parse

BEGINNING = 60  # seconds until the monitor answers, and until it shows all channels
WARMUPS = [3, 12, 48]  # seconds; where the monitor does not show all channels within one, the next one is tried
PACE = 1  # seconds between two requests for each picture, as the page has it


class TooShort(RuntimeError):
    """The channels ended before the monitor showed them all."""


def cpu_seconds(pid):
    """Of all threads of a process, in user and in kernel mode."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def ask(port, path):
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=BEGINNING)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def start_bench(bench, arguments, env=None):
    """env: more variables."""
    return subprocess.Popen([bench, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | (env or {}))


def result_of(process, timeout):
    """Its JSON. Exit status 3 says that frames were lost or torn, which the JSON has."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError("it did not end in time") from None
    if process.returncode not in (0, 3):
        raise RuntimeError((err.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
                           .removeprefix("gpudirect-bench: "))
    return json.loads(out)


@contextlib.contextmanager
def ended(process):
    """Whatever happens, the process has ended behind it; it ends its children at SIGTERM."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=BEGINNING)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def wait_for(what, get, bench):
    deadline = time.monotonic() + BEGINNING
    while not (found := get()):
        if bench.poll() is not None:
            result_of(bench, BEGINNING)  # says why, if it failed
            raise TooShort(f"the channels ended before {what} came")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come")
        time.sleep(0.05)
    return found


def watch(port, monitor, channels, seconds, bench):
    """Asks for the state and each picture once a second while frames are sent, as a page does."""
    def shown():
        known = json.loads(ask(port, "/api/state")[1])["channels"]
        return known if len(known) == channels and all(one["receivers"] for one in known) else None

    paths = [f"/api/thumbnail?channel={urllib.parse.quote(one['address'], safe='')}"
             for one in wait_for("all channels", shown, bench)]
    wait_for("a picture of each channel", lambda: all(ask(port, path)[0] == 200 for path in paths), bench)
    pictures, begun, before = 0, time.monotonic(), cpu_seconds(monitor.pid)
    last, used, memory = begun, 0, 0
    while last - begun < seconds and bench.poll() is None:
        ask(port, "/api/state")
        pictures += sum(ask(port, path)[0] == 200 for path in paths)
        time.sleep(max(PACE - (time.monotonic() - last), 0))
        last = time.monotonic()
        used, memory = cpu_seconds(monitor.pid) - before, resident_bytes(monitor.pid)
    if last == begun:
        raise TooShort("the channels ended before the monitor was watched")
    return {"cpu_percent": 100 * used / (last - begun), "memory_bytes": memory, "thumbnails": pictures,
            "seconds": last - begun}


def measure_beside(bench, program, arguments, channels, seconds, scratch):
    """The bench's JSON, and what a monitor took meanwhile."""
    with ended(start_bench(bench, arguments, {"TMPDIR": scratch})) as running:  # its sockets are in a folder there
        folder = wait_for("a folder of sockets", lambda: next(pathlib.Path(scratch).glob("gpudirect-bench-*"), None),
                          running)
        with ended(subprocess.Popen([program, "--listen=127.0.0.1:0", f"--directory={folder}"],
                                    stdout=subprocess.PIPE, text=True)) as monitor:
            line = monitor.stdout.readline()
            if "http://" not in line:
                raise RuntimeError("gpudirect-monitor does not start (see above)")
            taken = watch(urllib.parse.urlsplit(line.split()[1]).port, monitor, channels, seconds, running)
            return result_of(running, BEGINNING + 10 * (seconds + WARMUPS[-1])), taken


def measure(bench, program, arguments, channels, seconds):
    """The bench's JSON without and beside a monitor, and what the monitor took. arguments: the bench's, the warm-up
    last: the monitor finds the channels meanwhile."""
    with tempfile.TemporaryDirectory(prefix="gpudirect-") as scratch:
        with ended(start_bench(bench, arguments, {"TMPDIR": scratch})) as alone:
            without = result_of(alone, BEGINNING + 10 * (seconds + WARMUPS[0]))
        *arguments, warmup = arguments
        for longer in WARMUPS:
            try:
                frames = int(warmup) * longer // WARMUPS[0]
                beside, taken = measure_beside(bench, program, [*arguments, str(frames)], channels, seconds, scratch)
                return without, beside, taken
            except TooShort:
                if longer == WARMUPS[-1]:
                    raise
