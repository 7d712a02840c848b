# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds on this machine, and the suites that run in each."""

import dataclasses
import json
import os
import pathlib

import jobs

OPTIONS = ["-Dwerror=true", "-Dtests=enabled"]

# Suppressed: leaks of Debian's libraries, and races in an OpenCL runtime that is not built for the sanitizer.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions={jobs.TOP}/tests/sanitizers/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"suppressions={jobs.TOP}/tests/sanitizers/tsan.supp:halt_on_error=1:second_deadlock_stack=1",
}


@dataclasses.dataclass
class Build:
    folder: str
    options: list
    suites: list = None  # None: all that the arguments do not leave out
    env: dict = dataclasses.field(default_factory=dict)
    slower: int = 1  # factor for the time limits of its tests

    def __call__(self, name, args):
        if not build(self.folder, self.options, self.env):
            return [jobs.result(name, f"{self.folder} builds", "FAIL")]
        return test(self, args) or [jobs.result(name, f"tests run in {self.folder}", "FAIL")]


def build(folder, options, env=None):
    """Configures again where the folder exists: the demo or the user may have made it with other options, or before
    the setup installed what Meson looks for."""
    configured = (jobs.TOP / folder / "meson-private" / "coredata.dat").exists()
    again = ["--reconfigure"] if configured else []
    env = os.environ | (env or {})
    return (jobs.succeeds(["meson", "setup", *again, folder, *OPTIONS, *options], env=env) and
            jobs.succeeds(["ninja", "-C", folder], env=env, limit=2 * jobs.HOUR))


def results(folder):
    """The entries of the last run in Meson's testlog.json, one a test."""
    log = pathlib.Path(folder) / "testlog.json"
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()]


def test(what, args):
    logs = jobs.TOP / what.folder / "meson-logs"
    (logs / "testlog.json").unlink(missing_ok=True)
    command = ["meson", "test", "-C", what.folder, "--no-rebuild", "--print-errorlogs", "--num-processes", "2"]
    for suite in what.suites or []:
        command += ["--suite", suite]
    if not what.suites:
        command += ["--no-suite", "device"]
        if args.quick:
            command += ["--no-suite", "vm"]
    if not args.long or what.suites:
        command += ["--no-suite", "long"]
    if what.slower > 1:
        command += ["--timeout-multiplier", str(what.slower)]
    jobs.run(command, env=os.environ | SANITIZER_ENV | {"GPUDIRECT_LOG": "error"}, limit=12 * jobs.HOUR)
    return results(logs)
