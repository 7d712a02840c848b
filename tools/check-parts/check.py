# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What tools/check does once everything is installed: builds, runs every test, and sums up."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]

OPTIONS = ["-Dwerror=true", "-Dtests=enabled"]
# A build, its own options, and the suites that it runs. The sanitizers run what exercises our own code and its races;
# style, the guest and the tools' text say nothing new under them.
BUILDS = [
    ("build", ["-Db_sanitize=none"], None),
    ("build-asan", ["-Db_sanitize=address,undefined", "-Db_lundef=false"],
     ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer"]),
    # Without OpenCL: its runtime was not built for this sanitizer, which then sees locks that nobody took.
    ("build-tsan", ["-Db_sanitize=thread", "-Db_lundef=false"],
     ["unit", "host", "cuda", "fakes", "capture", "process"]),
]

# Leaks of Debian's libraries and races inside an OpenCL runtime that was not built for the sanitizer are not ours.
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:strict_string_checks=1",
    "LSAN_OPTIONS": f"suppressions={TOP}/tests/sanitizers/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"suppressions={TOP}/tests/sanitizers/tsan.supp:halt_on_error=1:second_deadlock_stack=1",
}


def run(command, **kwargs):
    print("+", " ".join(map(str, command)), flush=True)
    return subprocess.run(command, cwd=TOP, **kwargs).returncode


def succeeds(command):
    """Without what it prints, unless it fails."""
    with tempfile.TemporaryFile("w+") as output:
        if run(command, stdout=output, stderr=subprocess.STDOUT) == 0:
            return True
        output.seek(0)
        print("".join(output.readlines()[-200:]), file=sys.stderr, flush=True)
        return False


def build(folder, options):
    """A folder that is there may have been made by the demo or by hand: with other options, and before the setup
    installed what Meson looks for."""
    configured = (TOP / folder / "meson-private" / "coredata.dat").exists()
    again = ["--reconfigure"] if configured else []
    return succeeds(["meson", "setup", *again, folder, *OPTIONS, *options]) and succeeds(["ninja", "-C", folder])


def reason_of_skip(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.match(r"skip", line, re.IGNORECASE):
            return re.sub(r"^skip(ped)?\s*:?\s*", "", line, flags=re.IGNORECASE)
    return lines[-1] if lines else "no reason given"


def results(folder):
    """name, suites, result, seconds, output of each test of the last run."""
    log = TOP / folder / "meson-logs" / "testlog.json"
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines() if line.strip()]


def test(folder, suites, args):
    (TOP / folder / "meson-logs" / "testlog.json").unlink(missing_ok=True)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--print-errorlogs", "--num-processes", "2"]
    for suite in suites or []:
        command += ["--suite", suite]
    if not suites:
        command += ["--no-suite", "device"]
        if args.quick:
            command += ["--no-suite", "vm"]
    if not args.long:
        command += ["--no-suite", "long"]
    if folder != "build":
        command += ["--timeout-multiplier", "5"]
    run(command, env=os.environ | SANITIZER_ENV | {"GPUDIRECT_LOG": "error"})
    return results(folder)


def summary(runs):
    passed, failed, skipped = 0, [], []
    print("\n== what ran ==")
    for folder, tests, seconds in runs:
        by_suite = {}
        for result in tests:
            suite = re.sub(r"^.*?:|[+ ].*$", "", result["name"])  # "project:suite+suite / test"
            counts = by_suite.setdefault(suite, [0, 0, 0])
            if result["result"] in ("OK", "EXPECTEDFAIL"):
                counts[0] += 1
            elif result["result"] == "SKIP":
                counts[2] += 1
                skipped.append((folder, result["name"].split(" / ")[-1], reason_of_skip(result.get("stdout", ""))))
            else:
                counts[1] += 1
                failed.append((folder, result["name"].split(" / ")[-1], result["result"]))
        passed += sum(counts[0] for counts in by_suite.values())
        text = ", ".join(f"{suite} {sum(counts)}" for suite, counts in sorted(by_suite.items()))
        print(f"{folder:12} {seconds:5.0f} s  {text}")
    print("\n== skipped ==" if skipped else "\nnothing was skipped")
    for folder, name, reason in skipped:
        print(f"{folder:12} {name}: {reason}")
    if failed:
        print("\n== failed ==")
    for folder, name, result in failed:
        print(f"{folder:12} {name}: {result}")
    print(f"\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(prog="check", description=__doc__)
    parser.add_argument("--long", action="store_true", help="also the long runs")
    parser.add_argument("--quick", action="store_true", help="the ordinary build only, without the guest")
    args = parser.parse_args()

    runs = []
    for folder, options, suites in BUILDS[:1] if args.quick else BUILDS:
        start = time.monotonic()
        if not build(folder, options):
            print(f"\n{folder} does not build\n\n0 passed, 1 failed, 0 skipped")
            return 1
        tests = test(folder, suites, args)
        if not tests:
            print(f"\nno test ran in {folder}\n\n0 passed, 1 failed, 0 skipped")
            return 1
        runs.append((folder, tests, time.monotonic() - start))
    return summary(runs)


if __name__ == "__main__":
    sys.exit(main())
