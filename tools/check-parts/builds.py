# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds on this machine, and the suites that run in each."""

import dataclasses
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import changed
import jobs
import watch

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
    without: list = dataclasses.field(default_factory=list)  # suites that do not run all the same
    by_default: list = None  # patterns of the tests that run without --full or --long; None: all
    with_full: list = dataclasses.field(default_factory=list)  # patterns of those that do not
    env: dict = dataclasses.field(default_factory=dict)  # to build it
    elsewhere: dict = dataclasses.field(default_factory=dict)  # other parts, by name, whose tests do not run here, too
    slower: int = 1  # factor for the time limits of its tests
    at_once: float = 3.5  # tests for each processor: of its time a test needs one for a fifth, mostly
    configured: bool = None  # in this run; None: it has not been tried
    took: dict = dataclasses.field(default_factory=dict)  # seconds that building and testing took

    def __call__(self, name, args):
        what = self
        if args.changed:
            if not configure(self):
                return [jobs.result(name, f"{self.folder} is configured", "FAIL")]
            what = dataclasses.replace(self, suites=changed.suites(known_suites(self)), without=["device"],
                                       by_default=None, with_full=[])
            print("check: of what changed, the suites", ", ".join(what.suites), flush=True)
        start = time.monotonic()
        built = build(what, args)
        self.took["build"] = time.monotonic() - start
        if not built:
            return [jobs.result(name, f"{self.folder} builds", "FAIL")]
        start = time.monotonic()
        results = [*lint(self, name, args), *test(what, name, args)]
        self.took["test"] = time.monotonic() - start
        return results


# Suites about our own processes, bytes and texts, where a distribution's compiler and libraries say the same again.
NOT_QUICK = ["vm", "model", "process", "fuzz", "fakes", "rdma", "cable", "pairs", "capture", "dgma-layer", "tcp",
             "style"]


def left_out(what, args):
    """The suites that do not run."""
    suites = [*what.without, "vm"] if what.suites else ["device", *NOT_QUICK] if args.quick else ["device"]
    return suites if args.long and not what.suites else [*suites, "long"]


def needed(what, args):
    """The targets of its tests, as arguments for Ninja, of a part without suites of its own also the product; none
    means everything."""
    if not what.suites and (args.full or args.long):
        return []
    elsewhere = run_elsewhere(what, args)
    folder = jobs.TOP / what.folder
    targets = {target["id"]: target for target in json.loads((folder / "meson-info/intro-targets.json").read_text())}
    wanted = {name for name, target in targets.items() if not what.suites and target["build_by_default"] and
              not pathlib.Path(target["defined_in"]).is_relative_to(jobs.TOP / "tests")}
    for test in json.loads((folder / "meson-info/intro-tests.json").read_text()):
        if runs(what, args, test) and test["name"] not in elsewhere:
            wanted.update(test["depends"])
    return sorted({os.path.relpath(file, folder) for name in wanted for file in targets[name]["filename"]})


def suites_of(test):
    return {suite.split(":")[-1] for suite in test["suite"]}


def runs(what, args, test):
    suites = suites_of(test)
    return (not what.suites or bool(suites & set(what.suites))) and not suites & set(left_out(what, args)) and \
        not waits_for_full(what, args, test["name"])


def is_among(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def waits_for_full(what, args, name):
    return not args.full and not args.long and (
        what.by_default is not None and not is_among(name, what.by_default) or is_among(name, what.with_full))


def run_elsewhere(what, args):
    """The tests that other parts of the same check run: each runs once, in the build that sees most of it."""
    if args.quick or args.changed or args.full or args.long:
        return set()
    return {test["name"] for name, part in what.elsewhere.items() if (not args.only or name in args.only) and
            configure(part)
            for test in json.loads((jobs.TOP / part.folder / "meson-info/intro-tests.json").read_text())
            if runs(part, args, test)}


def names_of(what, args):
    """The tests that run, and those of them in a guest."""
    tests = json.loads((jobs.TOP / what.folder / "meson-info/intro-tests.json").read_text())
    for pattern in [*(what.by_default or []), *what.with_full]:
        if not fnmatch.filter([test["name"] for test in tests], pattern):
            print(f"check: no test of {what.folder} is called {pattern}", file=sys.stderr, flush=True)
    elsewhere = run_elsewhere(what, args)
    chosen = [test for test in tests if runs(what, args, test) and test["name"] not in elsewhere]
    return [[test["name"] for test in chosen if ("vm" in suites_of(test)) == guest] for guest in (False, True)]


def known_suites(what):
    tests = json.loads((jobs.TOP / what.folder / "meson-info/intro-tests.json").read_text())
    return {suite.split(":")[-1] for test in tests for suite in test["suite"]}


def lint(what, part, args):
    """Once, in the ordinary build. clang-tidy is for the author of a change: for a whole branch it reports too much
    that is not a fault."""
    if part != "build":
        return []
    results = [changed.format_result(part)]
    return [*results, changed.tidy_result(part, what.folder)] if args.changed else results


def development_packages():
    """What Meson finds, or misses, is in these packages; empty where there is no dpkg."""
    if not shutil.which("dpkg-query"):
        return ""
    return subprocess.run(["dpkg-query", "-W", "*-dev", "meson"], capture_output=True, text=True).stdout


def configure(what):
    if what.configured is None:
        what.configured = configure_anew(what)
    return what.configured


def configure_anew(what):
    """Configures a folder with these options, whatever was there. Meson keeps its answers, also that something is
    missing, so a folder from before other packages were installed, as the demo leaves one, is made anew."""
    folder = jobs.TOP / what.folder
    stamp = folder / "meson-private" / "check-packages"
    packages = development_packages()
    configured = (folder / "meson-private" / "coredata.dat").exists()
    known = stamp.exists() and stamp.read_text() == packages
    again = [] if not configured else ["--reconfigure" if known else "--wipe"]
    done = jobs.succeeds(["meson", "setup", *again, what.folder, *OPTIONS, *what.options], env=os.environ | what.env)
    if done:
        stamp.write_text(packages)
    return done


def build(what, args):
    env = os.environ | what.env
    if not configure(what):
        return False
    shown = watch.Compiling(what.folder)
    built = jobs.succeeds(["ninja", "-C", what.folder, *needed(what, args)], env=env, limit=2 * jobs.HOUR,
                          say=f"ninja -C {what.folder}", on_line=shown.line)
    shown.end()
    return built


def results(log):
    """The entries of a run in Meson's log, one for each test."""
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()]


def run_tests(what, part, log, names, at_once=None):
    """at_once: so many tests; None: as many as there are processors."""
    path = jobs.TOP / what.folder / "meson-logs" / f"{log}.json"
    shown = watch.Testing(part, path, results(path))
    path.unlink(missing_ok=True)
    command = ["meson", "test", "-C", what.folder, "--no-rebuild", "--print-errorlogs", "--logbase", log]
    if at_once:
        command += ["--num-processes", str(at_once)]
    if what.slower > 1:
        command += ["--timeout-multiplier", str(what.slower)]
    env = os.environ | SANITIZER_ENV | {"GPUDIRECT_LOG": "error", "GPUD_TEST_SLOWER": str(what.slower)}
    jobs.run([*command, *names], env=env, limit=12 * jobs.HOUR, on_line=shown.line,
             say=f"{' '.join(command)} (and {len(names)} names)")
    shown.end()
    return results(path) or [jobs.result(part, f"{log} of {what.folder}", "FAIL", "no test ran")]


AGAIN_MAX = 10  # tests: more do not fail by chance


def run_again(what, part, log, tests):
    """Runs once more, and alone, what failed: another program of this machine may have had its processors for seconds,
    and the time-outs of an emulated guest's drivers run on meanwhile. Both outcomes are reported, here and in the log,
    which is what another machine's check reads of this one."""
    failed = [test for test in tests if test["result"] in jobs.FAILURES]
    if 0 < len(failed) <= AGAIN_MAX:
        for test in failed:
            again = run_tests(what, part, "again", [jobs.short_name(test)])
            if again[0]["result"] == "OK":
                test |= {"result": "OK", "failed_first": test["result"]}
        path = jobs.TOP / what.folder / "meson-logs" / f"{log}.json"
        path.write_text("".join(json.dumps(test) + "\n" for test in tests))


GUESTS = 4  # at a time, at most: each has 2 processors and up to 4 GB of memory


def test(what, part, args):
    """The guests run after all others, which they would slow down."""
    processors = os.cpu_count() or 1
    names, guests = names_of(what, args)
    ran = []
    for log, some, at_once in (("testlog", names, int(what.at_once * processors)),
                               ("guests", guests, min(processors, GUESTS))):  # emulated, guests only compute
        if some:
            tests = run_tests(what, part, log, some, at_once)
            run_again(what, part, log, tests)
            ran += tests
    return ran or [jobs.result(part, f"the tests of {what.folder}", "FAIL", "no test ran")]
