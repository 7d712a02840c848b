#!/usr/bin/python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --report DIR: runs a set of measurements, each by gpudirect-bench or a program beside it, and writes
index.html, README.md with its drawings, and report.json there. steps.py says what is run, peers.py beside what; rows.py
and figures.py draw it, page.py arranges it. Without matplotlib, which draws the rest, there is no index.html, which
--draw makes of report.json anywhere else."""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import rows
import steps

STOPPED = 130
NO_MATPLOTLIB = "matplotlib, which draws the report, is not installed (apt install python3-matplotlib)"


class Progress:
    """A line that is rewritten on a terminal, and a line for each step in a log."""

    def __init__(self, planned):
        self.planned, self.begun = planned, time.monotonic()
        self.left, self.number, self.terminal = sum(planned), 0, sys.stderr.isatty()

    def begin(self, name):
        self.number += 1
        line = f"report: {self.number}/{len(self.planned)} {name}, about {max(round(self.left), 1)} s left"
        print(f"\r\033[K{line}" if self.terminal else line + "\n", end="", file=sys.stderr, flush=True)

    def end(self, planned):
        """What is left takes as much longer or shorter than planned as what is done did."""
        done = sum(self.planned) - sum(self.planned[self.number:])
        pace = (time.monotonic() - self.begun) / max(done, 1)
        self.left = sum(self.planned[self.number:]) * min(max(pace, 0.2), 5)

    def close(self):
        if self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def find_commit(program):
    """Of the checkout that the program was built in, or that its bundle was made of; None: of neither."""
    bundle = pathlib.Path(program).resolve().parents[1] / "needs"
    if bundle.is_file():
        return dict(line.split(maxsplit=1) for line in bundle.read_text().splitlines()).get("commit")
    git = ["git", "-C", str(pathlib.Path(program).resolve().parent)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        if commit.returncode:
            return None
        changed = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True,
                                 text=True, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None
    return commit.stdout.strip() + (" with local changes" if changed else "")


PACKAGES = ["gstreamer1.0-plugins-base", "gstreamer1.0-plugins-good", "gstreamer1.0-plugins-bad", "pipewire",
            "gstreamer1.0-pipewire", "python3-torch", "ucx-utils", "libfabric-bin", "iperf3", "openssl"]


def packages():
    """Versions of Debian's, as far as they are installed."""
    try:
        done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n", *PACKAGES],
                              capture_output=True, text=True, timeout=60)
    except OSError:
        return []
    return [line.partition(" ")[2] for line in done.stdout.splitlines() if line.startswith("installed ")]


def describe_machine(place):
    """Names of the devices, and versions of what takes part; what cannot be found out is null."""
    report = place.info()
    cpu = [line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
           if line.startswith("model name")]
    return {"cpu": cpu[0] if cpu else "unknown", "cores": os.cpu_count(),
            "kernel": " ".join([os.uname().sysname, os.uname().release, os.uname().machine]), "packages": packages(),
            "devices": [device["name"] + ": " + device["description"] for device in report["devices"]
                        if device["available"]],
            "gstreamer": place.gstreamer, "memory_bytes": steps.memory_bytes("MemTotal")}


def format_json(report):
    """A line for each step, so that a report is small and two can be compared."""
    steps_text = ",\n  ".join(json.dumps(step, allow_nan=False, separators=(",", ":")) for step in report["steps"])
    head = json.dumps({**report, "steps": []}, indent=1, allow_nan=False)
    return head.replace('"steps": []', f'"steps": [\n  {steps_text}\n ]') + "\n"


def draw(folder, report):
    """Writes the pages. False: there is no matplotlib, and no index.html."""
    text, drawings = rows.format_markdown(report)
    for name, content in {**drawings, **({"README.md": text} if text else {})}.items():
        (folder / name).write_text(content)
    try:
        import page  # not at the top: it imports matplotlib
    except ImportError as missing:
        if missing.name != "matplotlib":
            raise
        return False
    (folder / "index.html").write_text(page.format_page(report))
    return True


def draw_again(folder):
    """--draw: the page of the report.json that is there."""
    try:
        report = json.loads((folder / "report.json").read_text())
        drawn = draw(folder, report)
    except OSError as error:
        return f"gpudirect-bench: {error.filename}: {error.strerror}"
    except (ValueError, KeyError, TypeError, IndexError) as error:
        return f"gpudirect-bench: {folder / 'report.json'} is not a report of this version: {error!r}"
    if not drawn:
        return f"gpudirect-bench: {NO_MATPLOTLIB}"
    print(folder / "index.html")
    return 0


def main():
    parser = argparse.ArgumentParser(prog="gpudirect-bench --report")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--info", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--minutes", type=float, default=60, help="no measurement begins after that")
    options = parser.parse_args()
    if options.draw:
        return draw_again(options.folder)
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "report.json").open("a").close()
    except OSError as error:
        sys.exit(f"gpudirect-bench: no report can be written to {options.folder}: {error.strerror}")
    place = steps.Place(options.bench, options.info)
    try:
        plan = steps.plan(place, options.quick, options.beside)
        version = place.info()["version"]
    except (OSError, RuntimeError) as error:
        sys.exit(f"gpudirect-bench: {error}")
    progress = Progress([step.seconds for step in plan])
    results = []
    with place.open:
        for step in plan:
            progress.begin(step.title)
            if time.monotonic() - progress.begun > 60 * options.minutes:
                step.skip = step.skip or "the time of the report was over"
            results.append(step.run(place))
            progress.end(step.seconds)
    progress.close()
    report = {"version": version, "commit": find_commit(options.bench), "quick": options.quick,
              "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "machine": describe_machine(place), "steps": results}
    (options.folder / "report.json").write_text(format_json(report))
    drawn = draw(options.folder, report)
    failed = [step for step in results if step["status"] == "failed"]
    for step in failed:
        print(f"gpudirect-bench: {step['title']}: {step['reason']}", file=sys.stderr)
    print(f"{options.folder / ('index.html' if drawn else 'report.json')}: {len(results)} measurements, "
          f"{sum(step['status'] == 'skipped' for step in results)} not possible here, {len(failed)} failed")
    if not drawn:
        (options.folder / "index.html").unlink(missing_ok=True)  # that of an older report.json
        print(f"gpudirect-bench: {NO_MATPLOTLIB}: where it is, `gpudirect-bench --report {options.folder} --draw` "
              "makes the page of this folder", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ngpudirect-bench: stopped; nothing was written", file=sys.stderr)
        sys.exit(STOPPED)
