# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The page of a report: one HTML file, without a script and without anything from elsewhere."""

import html
import re
import textwrap

import figures
from rows import describe, text_of, title_of

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 0 auto; padding: 1rem; color: #1a1a1a;
       background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 2.5rem 0 0.3rem; }
svg { width: 100%; height: auto; }
figure { margin: 0; } figcaption { margin: 0.2rem 0 0.8rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; }
th, td { padding: 0.2rem 0.7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.missing { background: #fff6df; border-left: 4px solid #b36b00; padding: 0.4rem 0.8rem; margin: 0.5rem 0; }
code { font-size: 0.85rem; overflow-wrap: anywhere; } summary { cursor: pointer; padding: 0.3rem 0; }
"""


def wrap(text):
    """Lines of a page stay below the 512 bytes from which on lintian takes it for one that something has compressed."""
    return textwrap.fill(html.escape(text), 120, break_long_words=False, break_on_hyphens=False)


def format_cell(value):
    exact = f' data-value="{value!r}"' if isinstance(value, (int, float)) else ""
    return f"<td{exact}>{html.escape(text_of(value))}</td>"


def format_table(figure):
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in figure.head)
    rows = "\n".join("<tr>" + "".join(map(format_cell, row)) + "</tr>" for row in figure.rows)
    return (f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(figure.title)}: numbers"><table>'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>")


def format_figure(figure):
    # Ids are of one picture each, and several lie in this page.
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{figure.name}-", figure.svg) if figure.svg else ""
    picture = f'<div role="img" aria-label="{html.escape(figure.title)}; the numbers follow">{svg}</div>' if svg else ""
    missing = "".join(f'\n<p class="missing">Not measured: {wrap(text)}</p>' for text in figure.missing)
    sentence = wrap(figure.sentence)
    return (f'<section id="{figure.name}"><h2>{html.escape(figure.title)}</h2><figure>{picture}\n'
            f"<figcaption>{sentence}</figcaption></figure>{missing}\n"
            f"{format_table(figure) if figure.rows else ''}</section>")


def format_page(report):
    rows = "\n".join(f'<tr><th scope="row">{html.escape(name)}</th><td style="text-align:left;white-space:normal">'
                     f"{html.escape(value)}</td></tr>" for name, value in describe(report))
    quick = ('<p class="missing">This is a short run (--quick): it shows that everything works, and its numbers are '
             "too few to be compared.</p>" if report["quick"] else "")
    commands = "\n".join(f"<li><code>{wrap(step['command'])}</code> {html.escape(step['status'])}</li>"
                         for step in report["steps"])
    body = "\n".join(map(format_figure, figures.draw_all(report)))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title_of(report))}</title><style>{STYLE}</style></head><body><main>
<h1>gpudirect: what was measured</h1>
{quick}<table><tbody>
{rows}
</tbody></table>
<p>Every number below is in <a href="report.json">report.json</a>, as gpudirect-bench printed it. Latency ends when the
receiver has the frame; frames carry marks that are written and checked.</p>
{body}
<section id="commands"><h2>Commands</h2><details><summary>{len(report['steps'])} commands that were run</summary><ol>
{commands}
</ol></details></section>
</main></body></html>
"""
