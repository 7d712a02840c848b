#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the headers forbid does not compile: each file of misuse/ has one line with "//~ CODE", at which rustc reports
that error and nothing else, and compiles without this line. The environment's RUSTC compiles it with the crates that
cargo has built in CARGO_TARGET_DIR."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MARK = re.compile(r" *//~ (E\d+)")
rustc, target = os.environ["RUSTC"], pathlib.Path(os.environ["CARGO_TARGET_DIR"]) / "debug"


def compile_source(text, folder):
    """Errors as pairs of a line and a code."""
    source = pathlib.Path(folder) / "misuse.rs"
    source.write_text(text)
    command = [rustc, "--edition", "2021", "--crate-type", "lib", "--emit", "metadata", "--error-format", "json"]
    crates = ["--extern", f"gpudirect={target / 'libgpudirect.rlib'}", "-L", f"dependency={target / 'deps'}"]
    run = subprocess.run([*command, *crates, "--out-dir", folder, source], capture_output=True, text=True)
    found = []
    for line in run.stderr.splitlines():
        message = json.loads(line)
        if message["level"] == "error" and message["spans"]:
            at = [span["line_start"] for span in message["spans"] if span["is_primary"]]
            found.append((at[0], (message["code"] or {}).get("code")))
    return found if run.returncode else []


def check(path, folder):
    lines = path.read_text().splitlines()
    marked = [(number, MARK.search(line).group(1)) for number, line in enumerate(lines, 1) if MARK.search(line)]
    assert len(marked) == 1, "it has not one marked line"
    found = compile_source("\n".join(lines), folder)
    assert found == marked, f"rustc finds {found or 'nothing'}"
    del lines[marked[0][0] - 1]
    found = compile_source("\n".join(lines), folder)
    assert not found, f"without the marked line rustc finds {found}"


wrong, seen = 0, 0
with tempfile.TemporaryDirectory() as folder:
    for path in sorted((pathlib.Path(__file__).parent / "misuse").glob("*.rs")):
        seen += 1
        try:
            check(path, folder)
            print(f"ok      {path.stem}")
        except AssertionError as error:
            wrong += 1
            print(f"FAILED  {path.stem}: {error}")
sys.exit(1 if wrong or seen < 10 else 0)
