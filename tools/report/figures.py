# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The figures of a report. Each has a sentence that explains it, a table of exactly what is drawn, and what is missing
with the reason. Nothing is computed here but medians, and sums of two numbers of the raw JSON."""

import io

import matplotlib
matplotlib.use("svg")
import matplotlib.pyplot as pyplot  # noqa: E402 (after the choice)
import rows  # noqa: E402
from rows import Figure  # noqa: E402

# Colours that the colour-blind tell apart (Okabe and Ito).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "gpudirect", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS), "figure.figsize": (7.2, 3.6), "savefig.bbox": "tight"})


def numbers(values):
    return [value for value in values if value is not None]


def of_kind(report, *kinds):
    return [step for step in report["steps"] if step["kind"] in kinds]


def measured(figure, report, *kinds):
    """The steps that have results; of the others the figure says why."""
    there = []
    for step in of_kind(report, *kinds):
        if step["status"] == "measured":
            there.append(step)
        else:
            figure.missing.append(f"{step['title']}: {step['reason']}")
    return there


def draw(figure, plot, label_x, label_y, legend=True):
    """plot(axes) draws; a figure without numbers has no picture."""
    if not any(numbers(row[1:]) for row in figure.rows):
        figure.missing.append("there is nothing to draw")
        return figure
    picture, axes = pyplot.subplots()
    plot(axes)
    axes.set_xlabel(label_x)
    axes.set_ylabel(label_y)
    if legend:
        axes.legend(frameon=False, fontsize=9)
    text = io.StringIO()
    picture.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(picture)
    figure.svg = text.getvalue()[text.getvalue().index("<svg"):]
    return figure


def bars(figure, layers, label_x, rows=None, stacked=True, legend=True, finish=None):
    """A bar for each row. layers: their label, the column of their lengths, and how they look; beside each other if
    stacked, else one on another. finish(axes, bars of the last layer) adds to it."""
    rows = figure.rows if rows is None else rows

    def plot(axes):
        left, drawn = [0] * len(rows), None
        for label, column, look in layers:
            lengths = [row[column] or 0 for row in rows]
            drawn = axes.barh([row[0] for row in rows], lengths, left=left, label=label, **look)
            left = [start + length for start, length in zip(left, lengths)] if stacked else left
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        if finish:
            finish(axes, drawn)
    return draw(figure, plot, label_x, "", legend)


def curves(report, figure):
    """Name and run of everything whose latency was measured at 1080p50."""
    return [(f"core, {step['name']}", step["results"][0]) for step in measured(figure, report, "latency")]


def latency(report):
    figure = Figure("latency", "Latency of a frame, 1080p50",
                    "The share of frames (upwards) that took no longer than a time (to the right) from one process to "
                    "the other, at 50 frames a second; the dashed line is the median time that waking another process "
                    "by an eventfd takes here, which no hand-over to a sleeping process can beat.",
                    ["", "p50, µs", "p99, µs", "p99.9, µs", "max, µs"])
    found = curves(report, figure)
    figure.rows = [[name, *(run["latency_us"][key] for key in ("p50", "p99", "p999", "max"))] for name, run in found]
    ceiling = next((run["ceiling"] for _, run in found if run["ceiling"]["unit"] == "us"), None)
    if ceiling:
        figure.rows.append([ceiling["what"] + " (reference)", ceiling["value"], ceiling["p99"], None, None])

    def plot(axes):
        for name, run in found:
            points = run["distribution"] or []
            axes.step([point["us"] for point in points], [point["share"] for point in points], where="post", label=name)
        if ceiling:
            axes.axvline(ceiling["value"], linestyle="--", color="grey", linewidth=1)
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
    return draw(figure, plot, "latency, µs", "share of frames")


def throughput(report):
    figure = Figure("throughput", "Throughput by size",
                    "Frames a second from one process to another, as fast as they go: a lent frame is written where it "
                    "is sent from and never copied, a foreign one is copied once, which plain copies alone (dashed; on "
                    "the host memcpy in one thread) limit.", [])
    sizes, names = {}, []
    for step in measured(figure, report, "size"):
        run, name = step["results"][0], step["name"]
        row = sizes.setdefault(step["bytes"], {})
        row[name] = run["fps"]
        if name.startswith("foreign") and run["ceiling"]["unit"] == "frames/s":
            row[name.replace("foreign", "plain copies")] = run["ceiling"]["value"]
        names += [key for key in row if key not in names]
    figure.head = ["bytes a frame", *(f"{name}, frames/s" for name in names)]
    figure.rows = [[size, *map(row.get, names)] for size, row in sorted(sizes.items())]

    def plot(axes):
        for column, name in enumerate(names, 1):
            there = [row for row in figure.rows if row[column] is not None]
            plain = name.startswith("plain")
            axes.plot([row[0] / 1e6 for row in there], [row[column] for row in there],
                      "--" if plain else "o-" if name.startswith("lent") else "s-", label=name,
                      **({"color": "grey"} if plain else {}))
        axes.set_xscale("log")
        axes.set_yscale("log")
    return draw(figure, plot, "size of a frame, MB", "frames a second")


def tensor(report):
    figure = Figure("tensor", "A tensor of each size",
                    "The median time from handing a tensor over until the other process has it, at 60 a second; where "
                    "nothing is copied the size does not matter, and the ring's memory is made and mapped once.",
                    ["", "bytes", "p50, µs", "p99, µs", "ring made, ms", "connected, ms"])
    for step in measured(figure, report, "tensor"):
        if step["results"]:
            run = step["results"][0]
            times = [run["latency_us"]["p50"], run["latency_us"]["p99"], run["setup_ms"]["sender"],
                     run["setup_ms"]["receiver"]]
        else:
            times = [*rows.medians(step)[3:5], None, None]
        figure.rows.append([step["name"], step["bytes"], *times])

    def plot(axes):
        for name in dict.fromkeys(row[0] for row in figure.rows):
            there = [row for row in figure.rows if row[0] == name and row[2] is not None]
            axes.plot([row[1] / 2**20 for row in there], [row[2] for row in there], "o-", label=name)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
    return draw(figure, plot, "size of a tensor, MiB", "p50, µs")


def cpu(report):
    figure = Figure("cpu", "CPU time of a frame, 1080p50",
                    "Microseconds of CPU time that the sending and the receiving process spend on a frame at 50 frames "
                    "a second, marking and checking it included.",
                    ["", "sender, µs", "receiver, µs"])
    figure.rows = [[name, run["cpu_us_per_frame"]["sender"], run["cpu_us_per_frame"]["receiver"]]
                   for name, run in curves(report, figure)]
    return bars(figure, [("sender", 1, {}), ("receiver", 2, {})], "µs a frame")


def channels(report):
    figure = Figure("channels", "Channels until the first drop",
                    "Frames that were late or lost, by the number of channels that all senders in one process and all "
                    "receivers in another carry at once; the number before the first such frame is what this machine "
                    "carries.", ["", "channels", "late", "lost", "CPU of senders, %", "CPU of receivers, %"])
    steps = measured(figure, report, "channels")
    for step in steps:
        rows = sorted((result["channels"][0] for result in step["results"]), key=lambda row: row["channels"])
        figure.rows += [[step["name"], row["channels"], row["late"], row["lost"], row["sender"]["cpu_percent"],
                         row["receiver"]["cpu_percent"]] for row in rows]
        if "limit" in step:
            figure.missing.append(f"{step['name']}, more channels: {step['limit']}")
        elif not any(row["late"] or row["lost"] for row in rows):
            limit = "a short run" if report["quick"] else "half of the free memory, or 1024"
            figure.missing.append(f"{step['name']}: no frame was late or lost up to {rows[-1]['channels']} channels; "
                                  f"more were not tried ({limit})")

    def plot(axes):
        for step in steps:
            rows = [row for row in figure.rows if row[0] == step["name"]]
            axes.plot([row[1] for row in rows], [row[2] + row[3] for row in rows], "o-", label=step["name"])
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_ylim(bottom=0)
    return draw(figure, plot, "channels", "frames late or lost")


def monitor(report):
    figure = Figure("monitor", "Beside gpudirect-monitor",
                    "Frames that were late or lost, and CPU time of all senders, all receivers and the monitor in "
                    "percent of one processor, of the same channels without a monitor and beside one whose page shows "
                    "a picture a second of each.",
                    ["", "late", "lost", "senders, %", "receivers, %", "monitor, %", "pictures"])
    for step in measured(figure, report, "monitor"):
        for name, result, taken in zip(("alone", "monitored"), step["results"], ({}, step["monitor"])):
            row = result["channels"][0]
            figure.rows.append([f"{row['channels']} channels, {step['name']}, {name}", row["late"], row["lost"],
                                row["sender"]["cpu_percent"], row["receiver"]["cpu_percent"],
                                taken.get("cpu_percent"), taken.get("thumbnails")])
    return bars(figure, [("senders", 3, {}), ("receivers", 4, {}), ("monitor", 5, {})], "percent of one processor")


def failover(report):
    figure = Figure("failover", "The main sender is killed",
                    "Instants that the receiver did not get, and the time from the main sender's last frame to the "
                    "backup's first, when the main one is killed: with a group the receiver has both senders, with "
                    "standby the backup takes over the address.",
                    ["", "missing", "repeated", "gap, µs", "longest between two, µs"])
    for step in measured(figure, report, "failover"):
        result = step["results"][0]
        figure.rows.append([f"{step['shape']}, {step['name']}", result["missing"], result["repeated"], result["gap_us"],
                            result["interval_us_max"]])

    def plot(axes):
        bars = axes.barh([row[0] for row in figure.rows], [row[3] / 1e3 for row in figure.rows])
        axes.bar_label(bars, [f" {row[1]} missing" for row in figure.rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.margins(x=0.2)
    return draw(figure, plot, "from the main's last frame to the backup's first, ms", "", legend=False)


def ceilings(report):
    figure = Figure("ceilings", "Ratios to the ceilings",
                    "Each run measures what the machine does at best without gpudirect (its ceiling), too; 1 is as "
                    "good as that, for rates more and for times less is better.",
                    ["", "measured", "ceiling", "ratio", "of"])
    for step in measured(figure, report, "latency", "size"):
        run = step["results"][0]
        value = run["latency_us"]["p50"] if run["ceiling"]["unit"] == "us" else run["fps"]
        figure.rows.append([step["title"], value, run["ceiling"]["value"], run["ceiling_ratio"],
                            f"{run['ceiling']['what']}, {run['ceiling']['unit']}"])
    there = [row for row in figure.rows if row[3] is not None]

    def finish(axes, _):
        axes.axvline(1, color="grey", linewidth=1)
        axes.set_xscale("log")
        axes.figure.set_figheight(0.6 + 0.28 * len(there))
    return bars(figure, [(None, 3, {})], "ratio to the ceiling", there, legend=False, finish=finish)


def draw_all(report):
    """Rows beside others, and all else of which there are steps: older reports, and --beside, have less."""
    makers = [latency, throughput, tensor, cpu, channels, monitor, failover, ceilings]
    kinds = {throughput: "size", cpu: "latency", ceilings: "latency"}
    return rows.of_rows(report) + [make(report) for make in makers if of_kind(report, kinds.get(make, make.__name__))]
