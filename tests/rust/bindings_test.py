#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The declarations of gpudirect-sys are those of the headers: bindgen reads these anew, and every constant, struct,
field and function is the same. Versions of bindgen write them in another order, with other attributes and blanks."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CRATE = pathlib.Path(__file__).resolve().parents[2] / "plugins/rust/gpudirect-sys"
WHAT = "./plugins/rust/gpudirect-sys/generate writes it anew, with bindgen (Debian: apt install bindgen)"


def declarations(text):
    """Each by its name, as words."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    text = re.sub(r"#!?\[[^\]]*\]", "", text)
    text = re.sub(r"\s*::\s*", "::", re.sub(r"(\d)usize\b", r"\1", text))
    text = re.sub(r"::(std|core)::(os::raw|ffi|option)::", "", text)
    words = " ".join(re.findall(r"\w+|[^\w\s]", text))
    words = re.sub(r", ([)}>])", r"\1", words)
    found = {}
    for kind, name, what in re.findall(r"pub (const|type|struct|union|fn) (\w+)( [^;{]*(?:\{[^}]*\}|;))", words):
        if not name.startswith("__"):  # the C library's own
            found[f"{kind} {name}"] = re.sub(r" ([)}>])", r"\1", what)
    return found


if not shutil.which("bindgen"):
    print("SKIP: there is no bindgen here (Debian: apt install bindgen)")
    sys.exit(77)
committed = declarations((CRATE / "src/bindings.rs").read_text())
with tempfile.NamedTemporaryFile(suffix=".rs") as file:
    subprocess.run([CRATE / "generate", file.name], check=True)
    now = declarations(pathlib.Path(file.name).read_text())
wrong = [f"{name}: {committed.get(name, 'missing')} in bindings.rs, {now.get(name, 'missing')} in the headers"
         for name in sorted(committed.keys() | now.keys()) if committed.get(name) != now.get(name)]
functions = sum(name.startswith("fn ") for name in now)
print(f"{len(now)} declarations, {functions} of them functions, by {subprocess.getoutput('bindgen --version')}")
for line in wrong[:20]:
    print(line, file=sys.stderr)
if wrong:
    print(f"bindings.rs: {WHAT}", file=sys.stderr)
sys.exit(1 if wrong or functions < 125 else 0)
