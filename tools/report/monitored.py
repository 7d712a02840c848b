#!/usr/bin/python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What gpudirect-monitor costs: the same channels without it, and beside it with a picture a second of each, as its
page asks for them. Each sender and each receiver is a process of its own.

    monitored.py                                           # 8 channels of 1080p60 on the host, for 10 s each
    monitored.py --device cuda:0 --channels 16 --json
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
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


def start_bench(bench, arguments, scratch):
    """It puts its sockets into a folder of its own below TMPDIR."""
    return subprocess.Popen([bench, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | {"TMPDIR": scratch})


def result_of(process, timeout):
    """Its JSON. Exit status 3 says that frames were lost or torn, which the JSON has."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError("the channels did not end in time") from None
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
    with ended(start_bench(bench, arguments, scratch)) as running:
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
    """The bench's JSON without and beside a monitor, and what the monitor took. arguments: of job()."""
    with tempfile.TemporaryDirectory(prefix="gpudirect-") as scratch:
        with ended(start_bench(bench, arguments, scratch)) as alone:
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


def job(channels, rate, seconds, device="host", picture=(1920, 1080)):
    """The bench's arguments, the warm-up last: the monitor finds the channels meanwhile."""
    where = ["--from", device, "--to", device] if device != "host" else []
    return ["--channels", str(channels), "--apart", *where, "--width", str(picture[0]), "--height", str(picture[1]),
            "--fps", str(rate), "--frames", str(int(rate * seconds)), "--warmup", str(WARMUPS[0] * rate)]


def format_table(without, beside, taken):
    head = ["", "channels", "frames", "late", "lost", "CPU senders %", "CPU receivers %", "CPU monitor %", "p50 us",
            "p99 us", "pictures"]
    lines = [head]
    for name, result, monitor in (("without the monitor", without, None), ("beside the monitor", beside, taken)):
        row = result["channels"][0]
        lines.append([name, str(row["channels"]), str(row["frames"]), str(row["late"]), str(row["lost"]),
                      f"{row['sender']['cpu_percent']:.1f}", f"{row['receiver']['cpu_percent']:.1f}",
                      f"{monitor['cpu_percent']:.1f}" if monitor else "-", f"{row['latency_us_p50']:.0f}",
                      f"{row['latency_us_p99']:.0f}", str(monitor["thumbnails"]) if monitor else "-"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))) for line in lines)


def beside_or_path(name):
    """In a build the programs are in the folder above this file's; in a bundle `run` puts them into PATH."""
    place = pathlib.Path(__file__).resolve().parent.parent / name
    return str(place) if place.is_file() else shutil.which(name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="host", help="where the frames are (host)")
    parser.add_argument("--channels", type=int, default=8, help="(8)")
    parser.add_argument("--fps", type=int, default=60, help="(60)")
    parser.add_argument("--seconds", type=int, default=10, help="of each run (10)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if min(options.channels, options.fps, options.seconds) < 1:
        parser.error("--channels, --fps and --seconds are 1 at least")
    programs = {name: beside_or_path(name) for name in ("gpudirect-bench", "gpudirect-monitor")}
    for name, path in programs.items():
        if not path:
            sys.exit(f"monitored.py: there is no {name} in the PATH or beside this file")
    arguments = job(options.channels, options.fps, options.seconds, options.device)
    try:
        without, beside, taken = measure(programs["gpudirect-bench"], programs["gpudirect-monitor"], arguments,
                                         options.channels, options.seconds)
    except (OSError, RuntimeError) as error:
        sys.exit(f"monitored.py: {error}")
    if options.json:
        print(json.dumps({"without": without, "beside": beside, "monitor": taken}, indent=1))
    else:
        print(f"{options.device}, 1920x1080 UYVY at {options.fps}/s a channel, a picture a second of each; CPU in "
              "percent of one processor")
        print(format_table(without, beside, taken))
        print(f"the monitor has {taken['memory_bytes'] / 1e6:.0f} MB in memory")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("monitored.py: ended by a signal"))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("monitored.py: stopped")
