# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Rows of gpudirect and of others beside each other: tables, drawings and a page in Markdown, which code hosts show.
Nothing is computed here but medians of the rounds. matplotlib is not needed."""

import dataclasses
import html
import math
import statistics

INK, LIGHT, OURS, FLOOR, OTHER = "#24292f", "#6e7781", "#0072B2", "#000000", "#D55E00"
WIDTH, LABEL, PANEL, LINE, TOP = 900, 210, 230, 15, 44
KEYS = ["fps", "latency_us_p50", "latency_us_p99", "sender_cpu_us", "receiver_cpu_us"]
HEAD = ["", "receivers", "frames/s", "p50, µs", "p99, µs", "CPU of the sender, µs a frame",
        "CPU of a receiver, µs a frame", "lost or torn"]
SENTENCES = {
    "beside": "Processes of one machine: frames a second that each receiver gets as fast as they go, and at 60 frames "
              "a second the latency and the CPU time of a frame at each end, as medians of the rounds.",
    "hosts": "Over a network between two hosts on this machine, which a pair of virtual Ethernet devices (or "
             "loopback) joins: the same figures for one receiver, where no network card takes part.",
}
TITLES = {"beside": "Between processes", "hosts": "Between hosts"}

METHOD = """
- A sender's process marks each frame (16 bytes in eight of its rows, and at the end), and each receiver's process maps
  the frame, reads its marks and checks them. Frames are written where the transport wants them, if it lends memory.
  Only the programs that are marked so below move messages without reading them.
- Frames/s: what each receiver gets when nothing but the transport limits the sender. What copies nothing counts
  hand-overs; what copies (TCP, UDP, UCX, libfabric) counts moved frames.
- Latency: from handing a frame to the transport until the receiver has it mapped and readable, at 60 frames a second.
  CPU time: of each process, in user and kernel mode, at that pace, marking and checking included.
- Each figure is the median of the rounds (three; a short run has one) of 48 frames (96 for one receiver), so that a
  p99 of one receiver is its worst frame. Rows of one picture and number of receivers are measured after
  each other. Frames are UYVY, four in flight.
- Everything is measured by one command, `gpudirect-bench --report FOLDER`, which runs the commands below.
"""

PUBLISHED = """
| | what is published | source | checked |
|---|---|---|---|
| MXL | less than 1 ms for a transfer of video, against about 20 ms for a device by ST 2110 | early experiments, as \
[TV Tech](https://www.tvtechnology.com/news/all-you-need-to-know-about-mxl) reports | no: second hand; the project \
publishes no benchmark that we found |
| NDI | up to 150 Mbit/s for a stream of 1080p60, compressed | \
[docs.ndi.video, Bandwidth](https://docs.ndi.video/all/getting-started/white-paper/bandwidth) | the page; not measured |
| NDI HX3 | 100 ms from glass to glass, to be certified | [docs.ndi.video, Technical requirements]\
(https://docs.ndi.video/guides/ndi-certified/certification-guidelines/technical-requirements) | the page; not measured |
| Holoscan | 16.2 ms (14.0 to 18.8) from a camera's sensor to the display, 1080p60, Sensor Bridge | \
[docs.nvidia.com](https://docs.nvidia.com/holoscan/sensor-bridge-e2e-latency-tool/performance/performance-results.md) \
| the page; it includes camera and display |
"""


@dataclasses.dataclass
class Figure:
    name: str
    title: str
    sentence: str
    head: list
    rows: list = dataclasses.field(default_factory=list)
    missing: list = dataclasses.field(default_factory=list)  # sentences: what was not measured, and why
    svg: str = None  # None: there is nothing to draw


def text_of(value):
    """A number as it is read."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def describe(report):
    """Where it ran, by name and value."""
    older = next((step["results"][0]["machine"] for step in report["steps"]
                  if step["kind"] == "latency" and step["results"]), {})
    machine = older | report["machine"]
    memory = machine["memory_bytes"]
    return [("Processor", f"{machine.get('cpu', 'unknown')}, {machine.get('cores', '?')} cores"),
            ("Kernel", machine.get("kernel", "unknown")),
            ("Memory", f"{memory / 2**30:.0f} GiB" if memory else "unknown"),
            ("Devices", ", ".join(machine["devices"])),
            ("gpudirect", f"{report['version']}, commit {report['commit'] or 'unknown (not run from a checkout)'}"),
            ("GStreamer", machine["gstreamer"] or "none"),
            ("Packages", ", ".join(machine.get("packages", [])) or "unknown"), ("Measured", report["date"])]


def title_of(report):
    """The site lists reports by their titles."""
    known = dict(describe(report))
    gpus = [device.partition(": ")[2] for device in report["machine"]["devices"]
            if device.startswith(("cuda:", "hip:"))]
    return "gpudirect, measured on " + ", ".join([known["Processor"], *gpus])


def name_of(step):
    return step["name"] + (f", {step['device']}" if step["device"] != "host" else "")


def medians(step):
    values = ([run[key] for run in step["runs"] if run.get(key) is not None] for key in KEYS)
    found = [statistics.median(value) if value else None for value in values]
    damaged = [run["damaged"] for run in step["runs"] if "damaged" in run]
    return [name_of(step), step["receivers"], *found, sum(damaged) if damaged else None]


def scale(values):
    """Powers of ten around the values."""
    return math.floor(math.log10(min(values))), max(math.ceil(math.log10(max(values))),
                                                    math.floor(math.log10(min(values))) + 1)


def words(x, y, text, anchor="start", colour=INK, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y}" font-size="11" fill="{colour}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(text)}</text>')


def draw(figure):
    """A line for each row: its rate, from the median of its latency to p99, its CPU time."""
    panels = [("frames/s: right is better", lambda row: [row[2]]),
              ("p50 to p99, µs: left is better", lambda row: [row[3], row[4]]),
              ("CPU of both, µs: left is better", lambda row: [(row[5] or 0) + (row[6] or 0)])]
    height = TOP + LINE * len(figure.rows) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="DejaVu Sans, Verdana, sans-serif" role="img">',
             f"<title>{html.escape(figure.title)}</title>",
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    before = None
    for number, row in enumerate(figure.rows):
        y = TOP + LINE * number + 11
        if row[0] != before:
            parts.append(words(8, y, row[0], weight="bold" if row[0].startswith("gpudirect") else "normal"))
        parts.append(words(LABEL - 12, y, f"×{row[1]}", "end", LIGHT))
        before = row[0]
    for number, (title, read) in enumerate(panels):
        left = LABEL + PANEL * number
        there = [value for row in figure.rows for value in read(row) if value]
        if not there:
            continue
        low, high = scale(there)

        def place(value, left=left, low=low, high=high):
            return left + (math.log10(value) - low) / (high - low) * (PANEL - 24)

        parts.append(words(left, 16, title, weight="bold"))
        for power in range(low, high + 1):
            x = place(10**power)
            parts.append(f'<path d="M{x:.1f},{TOP} V{height - 8}" stroke="#d0d7de"/>')
            if (power - low) % max(1, (high - low) // 3) == 0:
                anchor = "start" if power == low else "end" if power == high else "middle"  # clear of the next panel's
                parts.append(words(x, 34, f"{10**power:g}" if abs(power) < 4 else f"1e{power}", anchor, LIGHT))
        for line, row in enumerate(figure.rows):
            values = [place(value) for value in read(row) if value]
            colour = OURS if row[0].startswith("gpudirect") else FLOOR if line_is_floor(row) else OTHER
            y = TOP + LINE * line + 7
            if values:
                parts.append(f'<path d="M{values[0]:.1f},{y} H{values[-1]:.1f}" stroke="{colour}" stroke-width="2"/>')
                parts.append(f'<circle cx="{values[0]:.1f}" cy="{y}" r="4" fill="{colour}"/>')
    return "\n".join([*parts, "</svg>"])


def line_is_floor(row):
    return row[0].startswith(("memory and futexes", "send and recv"))


def of_rows(report):
    """A figure for each kind and size of picture."""
    figures = []
    for kind in SENTENCES:
        steps = [step for step in report["steps"] if step["kind"] == kind]
        for height in sorted({step["height"] for step in steps}):
            figure = Figure(f"{kind}-{height}", f"{TITLES[kind]}, {'4K' if height == 2160 else f'{height}p'}",
                            SENTENCES[kind], HEAD)
            here = [step for step in steps if step["height"] == height]
            names = list(dict.fromkeys(map(name_of, here)))
            here.sort(key=lambda step: (names.index(name_of(step)), step["receivers"]))
            for step in here:
                if step["status"] == "measured":
                    figure.rows.append(medians(step))
                why = step["reason"] or step.get("limit")
                whom = name_of(step) + (f" to {step['receivers']}" if step["status"] != "skipped" else "")
                if why and f"{whom}: {why}" not in figure.missing:
                    figure.missing.append(f"{whom}: {why}")
            figure.svg = draw(figure) if figure.rows else None
            figures.append(figure)
    return figures


def table(head, rows, align="--:"):
    lines = [head, ["---"] + [align] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def format_markdown(report):
    """The page of a folder, and its drawings by name; None: the report has no such rows."""
    figures = of_rows(report)
    steps = [step for step in report["steps"] if step["kind"] in SENTENCES]
    if not figures:
        return None, {}
    parts = ["# " + title_of(report), "Back to [what was measured](../README.md). The numbers are those of "
             "[report.json](report.json).", table(["", ""], describe(report), "---")]
    if report["quick"]:
        parts.append("**This is a short run (--quick): its numbers are too few to be compared.**")
    for figure in figures:
        parts += [f"## {figure.title}", figure.sentence]
        parts += [f"![{figure.title}; the numbers follow]({figure.name}.svg)"] if figure.svg else []
        parts += [table(figure.head, [map(text_of, row) for row in figure.rows])] if figure.rows else []
        parts += ["\n".join(f"- Not measured: {text}" for text in figure.missing)] if figure.missing else []
    notes = {step["name"]: step["note"] for step in steps}
    parts += ["## How it is measured", METHOD.strip(), "## What each row is",
              "\n".join(f"- **{name}**: {note}." for name, note in notes.items()),
              "## Not measured here", "These need hardware or software that is not here. Their figures are others' and "
              "measure other things: they are not comparable with the tables above.", PUBLISHED.strip(),
              "## Commands", "Each row by itself. `gpudirect-bench --help` explains its braces. Between hosts, "
              "programs run in two network namespaces, which a veth pair with the addresses 198.18.0.2 and 198.18.0.3 "
              "joins: the server, in front of `&`, in the second one.",
              "\n".join(f"- {step['title']}: `{step['command']}`" for step in steps if step["status"] == "measured")]
    return "\n\n".join(parts) + "\n", {f"{figure.name}.svg": figure.svg + "\n" for figure in figures if figure.svg}
