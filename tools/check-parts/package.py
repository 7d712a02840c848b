# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Debian's packages: two builds in a clean Debian are alike, lintian has nothing to say, and they are installed, tested
and purged in another one."""

import subprocess
import sys
import tempfile

import jobs

NO_DEBIAN = 3


KINDS = [["--suite", "bookworm"], ["--suite", "trixie"], ["--suite", "trixie", "--arch", "arm64"]]


def one(name, kind):
    with tempfile.TemporaryDirectory(prefix="gpudirect-check-") as folder:
        command = [sys.executable, "tools/package-parts/package.py", *kind, "--check", "-o", folder]
        with tempfile.TemporaryFile("w+") as output:
            status = jobs.run(command, limit=3 * jobs.HOUR, stdout=output, stderr=subprocess.STDOUT)
            output.seek(0)
            text = output.read()
    outcome = {0: "OK", NO_DEBIAN: "SKIP"}.get(status, "FAIL")
    reason = text.strip().splitlines()[-1].removeprefix("package: ") if text.strip() else "no reason given"
    return jobs.result(name, f"./tools/package {' '.join(kind)} --check", outcome,
                       f"skipped: {reason}" if outcome == "SKIP" else text)


def package(name, args):
    return [one(name, kind) for kind in KINDS]
