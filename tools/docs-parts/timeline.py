#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Draws where a frame's latency goes as an SVG: three time lines, each to its own scale. The figures are measured ones,
and pages/understand/latency.md says on which machine.

    ./tools/docs-parts/timeline.py > tools/pictures/latency.svg
"""

import html

INK, LIGHT = "#24292f", "#57606a"
SENDER, LINK, RECEIVER, WAIT = "#ddf4ff", "#fff8c5", "#dafbe1", "#ffebe9"
LEFT, RIGHT, WIDTH = 20, 860, 880

# Title, the scale's unit and end, what is said at the end, and the parts: from, to, colour, words inside and below.
LINES = [
    ("Defaults: 1280x720 at 50/s on one host, in ms", "ms", 45, "each part measured alone", [
        (0, 20, WAIT, "gpudirectsink: sync=true", "waits 20 ms: sync=false takes it away"),
        (20, 20.24, LINK, "", ""),
        (20.24, 43.24, WAIT, "the receiver's sink: sync=true", "22–24 ms; 2–6 with processing-deadline=0"),
    ]),
    ("Nothing holds it back: lowest-latency-send and -receive, in ms", "ms", 0.26,
     "0.24 ms: the receiver's sink has it", [
        (0, 0.22, SENDER, "both pipelines' elements and threads: 0.22 ms", ""),
        (0.22, 0.24, LINK, "", "hand-over: 0.02 ms"),
    ]),
    ("Inside the hand-over between two elements: 3840x2160 at 60/s on an H100, in µs", "µs", 132,
     "122 µs: the receiver's pad has it", [
        (0, 42, SENDER, "GStreamer's push: 42", "two pads, two threads"),
        (42, 68, LINK, "driver: 26", "one call, cold after 16 ms"),
        (68, 122, RECEIVER, "pool, times, metas: 54", "cold code on both sides"),
    ]),
]


def text(x, y, words, size=13, color=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{html.escape(words)}</text>')


def draw_line(top, title, unit, end, at_end, parts):
    def at(value):
        return LEFT + (RIGHT - LEFT) * value / end

    drawn = [text(LEFT, top + 14, title, weight="bold")]
    for start, stop, color, inside, below in parts:
        wide = at(stop) - at(start)
        drawn.append(f'<rect x="{at(start):.1f}" y="{top + 26}" width="{max(wide, 5):.1f}" height="34" fill="{color}" '
                     f'stroke="{INK}"/>')
        if inside:
            drawn.append(text((at(start) + at(stop)) / 2, top + 48, inside, anchor="middle"))
        if below and wide > 150:
            drawn.append(text((at(start) + at(stop)) / 2, top + 78, below, 12, LIGHT, "middle"))
        elif below:
            drawn.append(text(min(at(stop), RIGHT), top + 78, below, 12, LIGHT, "end"))
    drawn.append(f'<path d="M{LEFT},{top + 90} H{RIGHT}" stroke="{LIGHT}" marker-end="url(#head)"/>')
    total = max(stop for _, stop, *_ in parts)
    for value in (0, total):
        drawn.append(f'<path d="M{at(value):.1f},{top + 86} v8" stroke="{LIGHT}"/>')
    drawn.append(text(LEFT, top + 108, f"0 {unit}: the sender has the frame", 12, LIGHT))
    drawn.append(text(min(at(total), RIGHT), top + 108, at_end, 12, LIGHT, "end"))
    return drawn


def draw():
    height = 24 + 132 * len(LINES)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" role="img">',
        f'<title>{html.escape("Where the latency of a frame goes")}</title>',
        f'<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        f'orient="auto"><path d="M0,0 L10,5 L0,10 z" fill="{LIGHT}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, line in enumerate(LINES):
        drawn += draw_line(14 + 132 * number, *line)
    return "\n".join([*drawn, "</svg>"])


if __name__ == "__main__":
    print(draw())
