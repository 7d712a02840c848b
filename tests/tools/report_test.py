# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --report: a short run measures everything that this machine can, and its pages show every figure,
with the numbers of the raw JSON, a sentence, and what is missing and why. A measurement that fails, and one that finds
a limit, are shown as well. Programs beside it may be missing, fail, hang, or say what cannot be read."""

import copy
import html.parser
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import schemas
from tool import BENCH, INFO, SMALL, alive, check, refused, run, run_json, skip, wait_for

SCRIPT = pathlib.Path(BENCH).parent / "report" / "report.py"
sys.path.insert(0, str(SCRIPT.parent))
import peers  # noqa: E402 (what is tested)
PYTHON = "/usr/bin/python3"  # as the bench runs it
FIGURES = ["beside-1080", "hosts-1080", "latency", "throughput", "tensor", "cpu", "channels", "monitor", "failover",
           "ceilings"]
ROW_KEYS = ["fps", "latency_us_p50", "latency_us_p99", "sender_cpu_us", "receiver_cpu_us"]
DEADLINE = 300

refused(2, "--report goes with --quick and --beside, or with --draw, alone", "--report", "somewhere", "--json")
for more in ("--quick", "--beside"):
    refused(2, "--report goes with --quick and --beside", "--report", "somewhere", more, "--draw")
for alone in ("--quick", "--draw", "--beside"):
    refused(2, "--report needs a folder", alone)
refused(1, "report.json: No such file", "--report", "/proc/none", "--draw")
refused(2, "--report needs a folder", "--report", "")
refused(2, "one of group, standby", "--failover", "luck")
refused(2, "--failover goes with", "--failover", "group", "--receivers", "2")
refused(2, "--floor is for frames between processes of the host", "--floor", "--elements")
refused(2, "--no-ceilings does not go with --ceilings", "--no-ceilings", "--ceilings")

# --- memory and futexes alone, and no ceilings ---
for receivers in (1, 3):
    floor = run_json(BENCH, "--floor", "--no-ceilings", "--receivers", str(receivers), "--verify", "full", *SMALL,
                     "--frames", "500", "--slots", "2")
    check(len(floor["receivers"]) == receivers and floor["lost"] == floor["torn"] == 0 and
          all(one["frames"] == 500 and one["latency_us"]["p50"] > 0 for one in floor["receivers"]), f"{floor}")
    check(floor["ceiling"]["key"] == "none" and floor["ceiling"]["value"] is None, f"a ceiling: {floor['ceiling']}")

# --- programs of their own ---
BYTES = 320 * 180 * 2
FACTS = {"bytes": BYTES, "width": 320, "height": 180, "receivers": 1, "device": "cpu", "frames": 10}
named = {program.name: program for program in peers.PROGRAMS}


def measured(name):
    """Figures of a program, or why there are none."""
    try:
        return peers.run_program(named[name], FACTS, peers.Link())
    except (RuntimeError, OSError) as error:
        return str(error)


with tempfile.TemporaryDirectory() as name:
    folder, path = pathlib.Path(name), os.environ["PATH"]

    def program(name, client, server="exit 0"):
        """One that is a server if its arguments have no address."""
        (folder / name).write_text(f'#!/bin/sh\ncase "$*" in\n*127.0.0.1*) : ;;\n*) {server} ;;\nesac\n{client}\n')
        (folder / name).chmod(0o755)

    os.environ["PATH"] = name
    for one in peers.PROGRAMS:
        if "torch" not in one.name:
            check(peers.why_no_program(one) == f"not here: install {one.package}", f"{one.name} is there")
    os.environ["PATH"] = f"{name}:{path}"
    peers.RETRIES = 0.5
    program("iperf3", "echo no stream; echo 'the server is busy'; exit 1")
    check(measured("iperf3, one stream") == "it failed: the server is busy", "one that fails")
    program("openssl", "exit 0", "echo +H:16384; exit 0")
    check(measured("openssl speed") == "its output has no figures", "nothing to read")
    program("openssl", "exit 0", f"echo '+R:{BYTES}:AES-128-GCM:16384.0'; exit 0")
    check(measured("openssl speed") == {"fps": 1}, "blocks of 16 KiB")
    sums = json.dumps({"end": {"sum_received": {"bytes": BYTES, "bits_per_second": 800 * BYTES}}})
    program("iperf3", f"echo '{sums}'")
    said = measured("iperf3, one stream")
    check(said["fps"] == 100 and said["sender_cpu_us"] > 0, f"100 a second: {said}")
    program("ucx_perftest", "echo iterations,50.0_percentile_lat; echo ' 90,1.0,2.0,3.0,4.0,5.0,6,7'; "
            "echo ' 100,12.5,20.0,30.0,40.00,1000.0,3,11'")
    said = measured("UCX, TCP")
    check(abs(said["fps"] - 1000 * 2**20 / BYTES) < 1 and said["latency_us_p50"] == said["latency_us_p99"] == 12.5 and
          said["receiver_cpu_us"] > 0, f"1000 MiB/s: {said}")
    program("fi_pingpong", "echo 'bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec'; "
            "echo '15m     50      =50      1.5g        8.37s    198.25      250.00   0.00'")
    said = measured("libfabric, TCP")
    check(said["fps"] == 4000 and said["latency_us_p50"] == 250, f"250 us each: {said}")
    # One that hangs, with a process of its own, is killed with it.
    program("fi_pingpong", f"sleep 1000 & echo $! >{name}/child; wait")
    peers.PATIENCE = 1
    check(measured("libfabric, TCP") == "it did not end in time", "one that hangs")
    wait_for("the end of what it started", lambda: not alive(int((folder / "child").read_text())), 5)
    program("dbus-run-session", "", "sleep 1000")
    program("pw-dump", "", "exec sleep 1000")
    try:
        peers.pipewire().__enter__()
        check(False, "a daemon that does not answer is there")
    except RuntimeError as error:
        check(str(error) == "PipeWire's daemon did not start in time", f"a daemon that does not answer: {error}")
    os.environ["PATH"] = path

if subprocess.run([PYTHON, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, timeout=60).returncode:
    skip("matplotlib is not installed (python3-matplotlib)")
refused(1, "no report can be written to /proc/none", "--report", "/proc/none")


class Page(html.parser.HTMLParser):
    """Sections by id: how often they have a picture, their sentence, notes, and rows of numbers and texts."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.here, self.into, self.ids = {}, None, None, []
        self.feed(text)
        for section in self.sections.values():
            section["notes"] = [" ".join(note.split()) for note in section["notes"]]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        check(tag not in ("script", "link", "iframe"), f"the page has a <{tag}>")
        check(not re.match("https?:", attrs.get("src", "")), f"the page loads {attrs}")
        if tag == "section":
            self.here = self.sections[attrs["id"]] = {"svg": 0, "text": "", "notes": [], "rows": []}
        elif self.here is not None:
            if tag == "svg":
                self.here["svg"] += 1
            elif tag == "p" and attrs.get("class") == "missing":
                self.here["notes"].append("")
                self.into = "note"
            elif tag == "figcaption":
                self.into = "text"
            elif tag == "tr":
                self.here["rows"].append([])
            elif tag == "td":
                self.here["rows"][-1].append(float(attrs["data-value"]) if "data-value" in attrs else "")
                self.into = None if "data-value" in attrs else "cell"

    def handle_data(self, data):
        if self.into == "note":
            self.here["notes"][-1] += data
        elif self.into == "text":
            self.here["text"] += data
        elif self.into == "cell":
            self.here["rows"][-1][-1] += data

    def handle_endtag(self, tag):
        if tag in ("p", "td", "figcaption"):
            self.into = None


def rows_of(page, name):
    return [row for row in page.sections[name]["rows"] if row]


def steps_of(report, *kinds):
    return [step for step in report["steps"] if step["kind"] in kinds and step["status"] == "measured"]


def none(value):
    return "–" if value is None else value


def expect_rows(page, name, wanted):
    wanted = [[none(value) for value in row] for row in wanted]
    check(rows_of(page, name) == wanted, f"{name} shows {rows_of(page, name)}, and the JSON has {wanted}")


def check_rows(page, report, folder):
    """What stands beside each other: in the tables of both pages, in drawings, and why something is missing."""
    text = (folder / "README.md").read_text()
    for name in FIGURES[:2]:
        kind, height = name.split("-")
        steps = [step for step in report["steps"] if step["kind"] == kind and step["height"] == int(height)]
        wanted = []
        for step in steps:
            if step["status"] != "measured":
                continue
            check(step["runs"] and f"`{step['command']}`" in text and f"- **{step['name']}**: {step['note']}." in text,
                  f"{step['title']} is not explained")
            known = [[run[key] for run in step["runs"] if key in run] for key in ROW_KEYS]
            wanted.append([step["name"], step["receivers"], *(statistics.median(one) if one else None for one in known),
                           sum(run["damaged"] for run in step["runs"]) if "damaged" in step["runs"][0] else None])
            check(all(known) or step.get("limit") or "damaged" not in step["runs"][0], f"{step['title']} is not whole")
            check(f"| {step['name']} | {step['receivers']} |" in text, f"README.md has no {step['name']}")
        expect_rows(page, name, wanted)
        drawing = folder / f"{name}.svg"
        check(drawing.exists() == bool(wanted) == (f"]({name}.svg)" in text), f"{name}.svg")
        if wanted:
            labels = xml.etree.ElementTree.parse(drawing).getroot().itertext()
            check({row[0] for row in wanted} <= set(labels), f"{name}.svg has not all rows")
    check("| MXL |" in text and "| NDI |" in text and "| Holoscan |" in text, "others' figures are missing")


def check_numbers(page, report):
    """Every other table, by another way than the page is made."""
    named = [(f"core, {step['name']}", step["results"][0]) for step in steps_of(report, "latency")]
    lent = named[0][1]["ceiling"]
    expect_rows(page, "latency", [[name, *(one["latency_us"][key] for key in ("p50", "p99", "p999", "max"))]
                                  for name, one in named]
                + [[lent["what"] + " (reference)", lent["value"], lent["p99"], None, None]])
    expect_rows(page, "cpu", [[name, one["cpu_us_per_frame"]["sender"], one["cpu_us_per_frame"]["receiver"]]
                              for name, one in named])
    sizes = {}
    for step in steps_of(report, "size"):
        sizes.setdefault(step["results"][0]["parameters"]["frame_bytes"], {})[step["name"]] = step["results"][0]
    expect_rows(page, "throughput", [
        [size, one["lent"]["fps"], one["foreign"]["fps"], one["foreign"]["ceiling"]["value"]]
        for size, one in sorted(sizes.items())])
    expect_rows(page, "channels", [
        [step["name"], row["channels"], row["late"], row["lost"], row["sender"]["cpu_percent"],
         row["receiver"]["cpu_percent"]] for step in steps_of(report, "channels")
        for row in sorted((one["channels"][0] for one in step["results"]), key=lambda row: row["channels"])])
    wanted = []
    for step in steps_of(report, "tensor"):
        latency = step["results"][0]["latency_us"] if step["results"] else {
            key: step["runs"][0][f"latency_us_{key}"] for key in ("p50", "p99")}
        setup = step["results"][0]["setup_ms"] if step["results"] else {"sender": None, "receiver": None}
        wanted.append([step["name"], step["bytes"], latency["p50"], latency["p99"], setup["sender"], setup["receiver"]])
    expect_rows(page, "tensor", wanted)
    wanted = []
    for step in steps_of(report, "monitor"):
        taken = step["monitor"]
        check(taken["seconds"] > 0 and taken["thumbnails"] > 0 and taken["memory_bytes"] > 0, f"the monitor: {taken}")
        for name, result, extra in zip(("alone", "monitored"), step["results"],
                                       ((None, None), (taken["cpu_percent"], taken["thumbnails"]))):
            row = result["channels"][0]
            wanted.append([f"{row['channels']} channels, {step['name']}, {name}", row["late"], row["lost"],
                           row["sender"]["cpu_percent"], row["receiver"]["cpu_percent"], *extra])
    expect_rows(page, "monitor", wanted)
    expect_rows(page, "failover", [
        [f"{one['failover']}, {one['height']}p{one['fps']:.0f}", one["missing"], one["repeated"], one["gap_us"],
         one["interval_us_max"]] for one in (step["results"][0] for step in steps_of(report, "failover"))])
    for row, one in zip(rows_of(page, "ceilings"), (step["results"][0] for step in
                                                    steps_of(report, "latency", "size")), strict=True):
        check(row[2] == one["ceiling"]["value"] and row[3] == none(one["ceiling_ratio"]), f"ceilings: {row}")


def check_page(folder):
    """The report and its page, which fit each other."""
    text = (folder / "index.html").read_text()
    report = schemas.require("report.json", json.loads((folder / "report.json").read_text()), "report.json")
    page = Page(text)
    check(not re.search(r"\b(nan|NaN|inf|None|null|undefined)\b", text), "the page shows a missing number")
    check(list(page.sections) == [*FIGURES, "commands"], f"the figures are {list(page.sections)}")
    check(len(set(page.ids)) == len(page.ids), "ids are not unique")
    check(max(map(len, text.splitlines())) <= 512, "lintian takes the page for a compressed one")
    for name in FIGURES:
        section = page.sections[name]
        check(section["text"].count(". ") == 0 and section["text"].endswith(".") and len(section["text"]) > 80,
              f"{name} is explained by {section['text']!r}")
        check(section["svg"] == bool(rows_of(page, name)), f"{name} has {section['svg']} pictures")
        check(section["svg"] or section["notes"], f"{name} is empty, and nothing says why")
    for step in report["steps"]:
        there = step["status"] == "measured"
        check(there == (step["reason"] is None) == bool(step["results"] or step.get("runs")),
              f"{step['title']}: {step['reason']}")
        if step["reason"]:
            notes = [note for section in page.sections.values() for note in section["notes"]]
            wanted = step["title"]
            if step["kind"] in ("beside", "hosts"):
                wanted = step["name"] + (f", {step['device']}" if step["device"] != "host" else "")
                wanted += f" to {step['receivers']}" if step["status"] == "failed" else ""
            wanted = " ".join(f"Not measured: {wanted}: {step['reason']}".split())
            check(wanted in notes, f"the page does not say {wanted!r}")
    check_rows(page, report, folder)
    check_numbers(page, report)
    return report, page


def replay(folder, change, env=None):
    """A report of the results of another one, which `change` has changed; nothing is installed beside gpudirect."""
    program = folder / "gpudirect-bench"
    canned = {f"paced {paced}": result for paced, result in PLAIN.items()}
    for step in copy.deepcopy(report["steps"]):
        for result in change(step):
            number = f" --channels {result['channels'][0]['channels']}" if step["kind"] == "channels" else ""
            canned[step["command"] + number] = result
    (folder / "canned.json").write_text(json.dumps(canned))
    program.write_text(f"""#!{PYTHON}
import json, pathlib, shlex, sys
answers = json.loads(pathlib.Path({str(folder / 'canned.json')!r}).read_text())
answer = answers.get(shlex.join(["gpudirect-bench", *sys.argv[1:]]))
if "--no-ceilings" in sys.argv and not ("--floor" in sys.argv and "--fps" in sys.argv):
    answer = answers["paced " + str("--fps" in sys.argv)]
sys.exit("gpudirect-bench: there is no room for this") if answer is None else print(json.dumps(answer))
""")
    program.chmod(0o755)
    return subprocess.run([PYTHON, SCRIPT, "--bench", program, "--info", INFO, "--quick", folder], capture_output=True,
                          text=True, timeout=DEADLINE, env=os.environ | {"PATH": name} | (env or {}))


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name) / "new" / "report"
    said, progress = run(BENCH, "--report", str(folder), "--quick", deadline=DEADLINE)
    check(str(folder / "index.html") in said and " 0 failed" in said, f"it says {said!r}")
    check(progress.count("report: ") >= 15 and " s left" in progress, f"its progress is {progress!r}")
    report, page = check_page(folder)
    check(report["quick"] and "short run" in (folder / "index.html").read_text() and
          "short run" in (folder / "README.md").read_text(), "it does not say that it is short")
    check(os.path.getsize(folder / "index.html") < 300_000, "the page is large")
    kinds = {step["kind"] for step in report["steps"] if step["status"] == "measured"}
    check(kinds >= {"beside", "latency", "size", "tensor", "channels", "failover"}, f"measured are {kinds}")
    check(("monitor" in kinds) == (pathlib.Path(BENCH).parent / "gpudirect-monitor").exists(), f"measured are {kinds}")
    if len(sys.argv) > 1:  # a copy, to be looked at
        subprocess.run(["cp", "-r", folder, sys.argv[1]], check=True)

PLAIN = {paced: run_json(BENCH, "--no-ceilings", *SMALL, "--frames", "20", *(["--fps", "200"] if paced else []))
         for paced in (False, True)}


def late_at_two(step):
    if step["kind"] != "channels":
        return step["results"]
    rows = [copy.deepcopy(step["results"][0]) for _ in range(2)]
    for number, row in enumerate(rows, 1):
        row["channels"][0] |= {"channels": number, "late": 3 * (number == 2), "lost": 0}
    return rows


# A measurement that fails; one row that is measured by half; and more channels than the system lets it open: what was
# measured is kept, and the page says why no more was.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    done = replay(folder, lambda step: [] if step["kind"] == "failover" else late_at_two(step)[:1])
    check(done.returncode == 1 and "there is no room for this" in done.stderr, f"a failure: {done}")
    changed, page = check_page(folder)
    empty = page.sections["failover"]
    check(not empty["svg"] and "there is nothing to draw" in str(empty["notes"]), "a figure without numbers")
    notes = page.sections["channels"]["notes"]
    check(notes == ["Not measured: 1080p60, host, more channels: there is no room for this"], f"the notes are {notes}")
    rows = {row[0]: row for row in rows_of(page, "beside-1080")}
    check(rows["memory and futexes"][2:4] == [PLAIN[False]["fps"], "–"], f"half a row: {rows}")
    check(rows["gpudirect"][3] == PLAIN[True]["latency_us"]["p50"], f"a row: {rows}")
    notes = page.sections["beside-1080"]["notes"]
    check("Not measured: memory and futexes to 1: at 60 a second: there is no room for this" in notes and
          any(note.startswith("Not measured: UCX, shared memory: not here: install ucx-utils") for note in notes),
          f"the notes are {notes}")

# Without matplotlib the numbers come all the same, with the page that needs none, and another machine draws the other.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "without").mkdir()
    (folder / "without" / "matplotlib.py").write_text("raise ModuleNotFoundError('none', name='matplotlib')\n")
    (folder / "index.html").write_text("of an older report")
    done = replay(folder, late_at_two, {"PYTHONPATH": str(folder / "without")})
    check(done.returncode == 0 and "--draw" in done.stderr and "report.json: " in done.stdout, f"no matplotlib: {done}")
    check(not (folder / "index.html").exists(), "there is a page, which nothing drew")
    check("| gpudirect | 1 |" in (folder / "README.md").read_text(), "there is no README.md")
    run(BENCH, "--report", name, "--draw", env={"PYTHONPATH": str(folder / "without")}, status=1)
    out, _ = run(BENCH, "--report", name, "--draw")
    check(out == f"{folder / 'index.html'}\n", f"--draw says {out!r}")
    _, page = check_page(folder)
    check(not page.sections["channels"]["notes"], f"notes on channels: {page.sections['channels']['notes']}")
    (folder / "report.json").write_text('{"version": "0.1.0"}')
    _, err = run(BENCH, "--report", name, "--draw", status=1)
    check("is not a report of this version" in err and "Traceback" not in err, f"--draw of nonsense: {err!r}")
