# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What tools/check does once everything is installed: builds, runs every test, and sums up."""

import argparse
import re
import sys
import time

import jobs
from arm64 import arm64
from builds import Build
from compilers import CLANG, LTO
from debian import debian12, debian13
from sanitizers import ASAN, TSAN

# In the order in which they run: with --quick, by default, with --long. tools/check has the same names.
QUICK = {"build": Build("build", ["-Db_sanitize=none"])}
ORDINARY = QUICK | {"asan": ASAN, "tsan": TSAN}
PARTS = ORDINARY | {"clang": CLANG, "lto": LTO, "debian13": debian13, "debian12": debian12, "arm64": arm64}


def reason_of_skip(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.match(r"skip", line, re.IGNORECASE):
            return re.sub(r"^skip(ped)?\s*:?\s*", "", line, flags=re.IGNORECASE)
    return lines[-1] if lines else "no reason given"


def summary(runs):
    passed, failed, skipped = 0, [], []
    print("\n== what ran ==")
    for part, tests, seconds in runs:
        by_suite = {}
        for result in tests:
            suite = re.sub(r"^.*?:|[+ ].*$", "", result["name"])  # "project:suite+suite / test"
            counts = by_suite.setdefault(suite, [0, 0, 0])
            if result["result"] in ("OK", "EXPECTEDFAIL"):
                counts[0] += 1
            elif result["result"] == "SKIP":
                counts[2] += 1
                skipped.append((part, result["name"].split(" / ")[-1], reason_of_skip(result.get("stdout", ""))))
            else:
                counts[1] += 1
                failed.append((part, result["name"].split(" / ")[-1], result["result"]))
        passed += sum(counts[0] for counts in by_suite.values())
        text = ", ".join(f"{suite} {sum(counts)}" for suite, counts in sorted(by_suite.items()))
        print(f"{part:12} {seconds:5.0f} s  {text}")
    print("\n== skipped ==" if skipped else "\nnothing was skipped")
    for part, name, reason in skipped:
        print(f"{part:12} {name}: {reason}")
    if failed:
        print("\n== failed ==")
    for part, name, result in failed:
        print(f"{part:12} {name}: {result}")
    print(f"\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(prog="check", description=__doc__)
    parser.add_argument("--long", action="store_true", help="also the long runs")
    parser.add_argument("--quick", action="store_true", help="the ordinary build only, without the guest")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts alone")
    args = parser.parse_args()

    jobs.end_with_signals()
    runs = []
    for name in args.only or (QUICK if args.quick else PARTS if args.long else ORDINARY):
        start = time.monotonic()
        runs.append((name, PARTS[name](name, args), time.monotonic() - start))
        if name == "build" and len(runs[0][1]) == 1:
            break  # the ordinary build failed, so the others would, too
    return summary(runs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("check: ended before its time", file=sys.stderr)
        sys.exit(130)
