# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The manual page of a tool says what its --help says, and has nothing that is not a manual page.

    manual_test.py TOOL...
"""

import importlib.machinery
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys

from tool import check

TOP = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 60


def load(path):
    loader = importlib.machinery.SourceFileLoader("write", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("write", loader))
    loader.exec_module(module)
    return module


write = load(TOP / "tools/man/write")
for program in sys.argv[1:]:
    name = pathlib.Path(program).name
    text = write.help_of(program)
    page = TOP / f"tools/man/{name}.1"
    check(page.exists() and page.read_text() == write.page(text),
          f"{page} is another one than its --help makes: ./tools/man/write {program}")
    options = re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.MULTILINE)
    written = page.read_text().replace(r"\-", "-")
    check(len(options) > 5, f"{name} --help lists the options {options}")
    for option in options:
        check(re.search(rf"^(\\fB-h\\fR, )?\\fB{option}\\fR", written, re.MULTILINE), f"{page} has no {option}")
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-Kutf8", page], capture_output=True, text=True,
                              timeout=LIMIT)
        check(done.returncode == 0 and not done.stderr, f"groff says of {page}: {done.stderr}")
    print(f"{name}: {len(options)} options")
