# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --report: a short run measures everything that this machine can, and its page shows every figure,
with the numbers of the raw JSON, a sentence, and what is missing and why. A measurement that fails, and one that finds
a limit, are shown as well."""

import copy
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import schemas
from tool import BENCH, INFO, SMALL, check, refused, run, run_json, skip

SCRIPT = pathlib.Path(BENCH).parent / "report" / "report.py"
PYTHON = "/usr/bin/python3"  # as the bench runs it
FIGURES = ["latency", "throughput", "cpu", "receivers", "channels", "monitor", "failover", "beside", "network",
           "network-latency", "ceilings"]
DEADLINE = 300

refused(2, "--report goes with --quick or --draw alone", "--report", "somewhere", "--json")
refused(2, "--report goes with --quick or --draw alone", "--report", "somewhere", "--quick", "--draw")
refused(2, "--report needs a folder", "--quick")
refused(2, "--report needs a folder", "--draw")
refused(1, "report.json: No such file", "--report", "/proc/none", "--draw")
refused(2, "--report needs a folder", "--report", "")
refused(2, "one of group, standby", "--failover", "luck")
refused(2, "--failover goes with", "--failover", "group", "--receivers", "2")
if subprocess.run([PYTHON, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, timeout=60).returncode:
    skip("matplotlib is not installed (python3-matplotlib)")
refused(1, "no report can be written to /proc/none", "--report", "/proc/none")


class Page(html.parser.HTMLParser):
    """Sections by id: how often they have a picture, their sentence, notes, and rows of numbers and texts."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.here, self.into, self.ids = {}, None, None, []
        self.feed(text)

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


def check_numbers(page, report):
    """Every table, by another way than the page is made."""
    runs = {step["name"]: step["results"][0] for step in steps_of(report, "latency")}
    named = [(f"core, {name}", one) for name, one in runs.items()]
    peers = {step["name"]: step["results"][0] for step in steps_of(report, "beside")}
    if peers:
        named.append(("gpudirectsink", next(iter(peers.values()))["ours"]["runs"][0]))
        order = [("gpudirectsink", named.pop()[1])] + [(name, one["peer"]["runs"][0]) for name, one in peers.items()]
        named += order
    lent = runs["lent"]["ceiling"]
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
    expect_rows(page, "receivers", [[one["parameters"]["receivers"], one["fps"], one["cpu_us_per_frame"]["sender"]]
                                    for one in (step["results"][0] for step in steps_of(report, "receivers"))])
    expect_rows(page, "channels", [
        [step["name"], row["channels"], row["late"], row["lost"], row["sender"]["cpu_percent"],
         row["receiver"]["cpu_percent"]] for step in steps_of(report, "channels")
        for row in sorted((one["channels"][0] for one in step["results"]), key=lambda row: row["channels"])])
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
    wanted = []
    for name, one in peers.items():
        for label, side in ((f"gpudirect, beside {name}", "ours"), (name, "peer")):
            figures = {key: one[side]["summary"][key]["median"] for key in one[side]["summary"]}
            wanted.append([label, figures["latency_us_p50"], figures["latency_us_p99"],
                           figures["cpu_us_per_frame_sender"] + figures["cpu_us_per_frame_receiver"],
                           one["ratio"]["latency_us_p50"] if side == "ours" else None])
    expect_rows(page, "beside", wanted)
    check_network(page, report)
    for row, one in zip(rows_of(page, "ceilings"), (step["results"][0] for step in
                                                    steps_of(report, "latency", "size", "receivers")), strict=True):
        check(row[2] == one["ceiling"]["value"] and row[3] == none(one["ceiling_ratio"]), f"ceilings: {row}")


def check_network(page, report):
    """What went through gpudirect, then the other programs of the last step, then the other elements."""
    short = {"tcp": "plain send and recv", "iperf3": "iperf3, one stream", "aes128gcm": "AES-128-GCM alone",
             "ucx": "ucx_perftest", "libfabric": "fi_pingpong"}
    for name, columns in (("network", ["value"]), ("network-latency", ["value", "p99"])):
        steps = steps_of(report, name)
        wanted = []
        for step in steps:
            one = step["results"][0]
            figures = [one["fps"]] if name == "network" else [one["latency_us"]["p50"], one["latency_us"]["p99"]]
            wanted.append([f"gpudirect, {step['name']}", *figures, one["cpu_us_per_frame"]["sender"],
                           one["cpu_us_per_frame"]["receiver"], one["lost"] + one["torn"]])
        for one in steps[-1]["results"][0]["ceilings"] if steps else []:
            note = f"Not measured: {short[one['key']]}: {one['skipped']}"
            check((one["skipped"] is not None) == (note in page.sections[name]["notes"]), f"{name}: {one}")
            if one["skipped"] is None:
                wanted.append([short[one["key"]], *(one[column] for column in columns),
                               one["cpu_us_per_frame"]["sender"], one["cpu_us_per_frame"]["receiver"], None])
        if name == "network":
            wanted = [row[:-1] for row in wanted]
        else:
            for step in steps_of(report, "network-beside"):
                for label, side in ((f"gpudirectsink, beside {step['name']}", "ours"), (step["name"], "peer")):
                    one = step["results"][0][side]
                    figures = {key: one["summary"][key]["median"] for key in one["summary"]}
                    wanted.append([label, figures["latency_us_p50"], figures["latency_us_p99"],
                                   figures["cpu_us_per_frame_sender"], figures["cpu_us_per_frame_receiver"],
                                   sum(each["lost"] + each["torn"] for each in one["runs"])])
        expect_rows(page, name, wanted)


def check_page(folder):
    """The report and its page, which fit each other."""
    text = (folder / "index.html").read_text()
    report = schemas.require("report.json", json.loads((folder / "report.json").read_text()), "report.json")
    page = Page(text)
    check(not re.search(r"\b(nan|NaN|inf|None|null|undefined)\b", text), "the page shows a number that is none")
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
        check(there == (step["reason"] is None) == bool(step["results"]), f"{step['title']}: {step['reason']}")
        if step["reason"]:
            notes = [note for section in page.sections.values() for note in section["notes"]]
            wanted = f"Not measured: {step['title']}: {step['reason']}"
            check(wanted in notes, f"the page does not say {wanted!r}")
    check_numbers(page, report)
    return report, page


def replay(folder, change, env=None):
    """A report of the results of another one, which `change` has changed."""
    program = folder / "gpudirect-bench"
    canned = {}
    for step in copy.deepcopy(report["steps"]):
        for result in change(step):
            number = f" --channels {result['channels'][0]['channels']}" if step["kind"] == "channels" else ""
            canned[step["command"] + number] = result
    (folder / "canned.json").write_text(json.dumps(canned))
    program.write_text(f"""#!{PYTHON}
import json, pathlib, shlex, sys
answer = json.loads(pathlib.Path({str(folder / 'canned.json')!r}).read_text()).get(
    shlex.join(["gpudirect-bench", *sys.argv[1:]]))
sys.exit("gpudirect-bench: there is no room for this") if answer is None else print(json.dumps(answer))
""")
    program.chmod(0o755)
    return subprocess.run([PYTHON, SCRIPT, "--bench", program, "--info", INFO, "--quick", folder], capture_output=True,
                          text=True, timeout=DEADLINE, env=env)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name) / "new" / "report"
    said, progress = run(BENCH, "--report", str(folder), "--quick", deadline=DEADLINE)
    check(str(folder / "index.html") in said and " 0 failed" in said, f"it says {said!r}")
    check(progress.count("report: ") >= 15 and " s left" in progress, f"its progress is {progress!r}")
    report, page = check_page(folder)
    check(report["quick"] and "short run" in (folder / "index.html").read_text(), "it does not say that it is short")
    check(os.path.getsize(folder / "index.html") < 300_000, "the page is large")
    kinds = {step["kind"] for step in report["steps"] if step["status"] == "measured"}
    check(kinds >= {"latency", "size", "receivers", "channels", "failover"}, f"measured are {kinds}")
    check(("monitor" in kinds) == (pathlib.Path(BENCH).parent / "gpudirect-monitor").exists(), f"measured are {kinds}")
    if len(sys.argv) > 1:  # a copy, to be looked at
        subprocess.run(["cp", "-r", folder, sys.argv[1]], check=True)

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    done = replay(folder, lambda step: [] if step["kind"] == "failover" else step["results"])
    check(done.returncode == 1 and "there is no room for this" in done.stderr, f"a failure: {done}")
    _, page = check_page(folder)
    empty = page.sections["failover"]
    check(not empty["svg"] and "there is nothing to draw" in str(empty["notes"]), "a figure without numbers")


def late_at_two(step):
    if step["kind"] != "channels":
        return step["results"]
    rows = [copy.deepcopy(step["results"][0]) for _ in range(2)]
    for number, row in enumerate(rows, 1):
        row["channels"][0] |= {"channels": number, "late": 3 * (number == 2), "lost": 0}
    return rows


# More channels than the system lets it open: what was measured is kept, and the page says why no more was.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    done = replay(folder, lambda step: late_at_two(step)[:1])
    check(done.returncode == 0, f"no second channel: {done}")
    _, page = check_page(folder)
    notes = page.sections["channels"]["notes"]
    check(notes == ["Not measured: 1080p60, host, more channels: there is no room for this"], f"the notes are {notes}")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    done = replay(folder, late_at_two)
    check(done.returncode == 0, f"late channels: {done}")
    _, page = check_page(folder)
    check(not page.sections["channels"]["notes"], f"notes on channels: {page.sections['channels']['notes']}")

# A network, as if frames had gone over it: what plain TCP and other programs reach there is real, or left out.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    changed = copy.deepcopy(report)
    plain = {fps: run_json(BENCH, "--to", "tcp://127.0.0.1:7475", "--ceilings", "--peers", *SMALL, *fps.split(),
                           env={"PATH": name}) for fps in ("", "--fps 200 --frames 30")}
    beside = next((step["results"] for step in steps_of(report, "beside")), None)
    for step in changed["steps"]:
        if step["kind"] == "network-beside" and beside:
            step |= {"results": beside, "status": "measured", "reason": None}
        elif step["kind"] in ("network", "network-latency"):
            one = copy.deepcopy(plain["" if step["kind"] == "network" else "--fps 200 --frames 30"])
            one |= {"fps": 60.5, "cpu_us_per_frame": {"sender": 7, "receiver": 8}, "lost": 3, "torn": 2}
            one["latency_us"] |= {"p50": 100, "p99": 200}
            step |= {"results": [one], "status": "measured", "reason": None}
    (folder / "report.json").write_text(json.dumps(changed))
    run(BENCH, "--report", name, "--draw")
    _, page = check_page(folder)
    check(page.sections["network"]["svg"] == page.sections["network-latency"]["svg"] == 1, "no picture of a network")
    check(rows_of(page, "network")[0] == ["gpudirect, TLS", 60.5, 7, 8], f"{rows_of(page, 'network')}")

# Without matplotlib the numbers come all the same, and another machine draws them.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "without").mkdir()
    (folder / "without" / "matplotlib.py").write_text("raise ModuleNotFoundError('none', name='matplotlib')\n")
    without = os.environ | {"PYTHONPATH": str(folder / "without")}
    (folder / "index.html").write_text("of an older report")
    done = replay(folder, lambda step: step["results"], without)
    check(done.returncode == 0 and "--draw" in done.stderr and "report.json: " in done.stdout, f"no matplotlib: {done}")
    check(not (folder / "index.html").exists(), "there is a page, which nothing drew")
    run(BENCH, "--report", name, "--draw", env={"PYTHONPATH": str(folder / "without")}, status=1)
    out, _ = run(BENCH, "--report", name, "--draw")
    check(out == f"{folder / 'index.html'}\n", f"--draw says {out!r}")
    check_page(folder)
    (folder / "report.json").write_text('{"version": "0.1.0"}')
    _, err = run(BENCH, "--report", name, "--draw", status=1)
    check("is no report of this version" in err and "Traceback" not in err, f"--draw of nonsense: {err!r}")
