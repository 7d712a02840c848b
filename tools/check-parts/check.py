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
from container import container
from debian import debian12, debian13, debian14
from figures import figures
from package import package
from sanitizers import ASAN, TSAN, VARIANTS

# What takes minutes and says little of a change to the code: variants; another vendor's devices, or another pair of
# vendors', by the same copies; elements over TCP that run over TLS as well; models, which are not made of the code;
# what follows a whole page, or installs; two thirds of the pairs; and guests that try a driver again by another
# program.
MINUTES = [
    *VARIANTS,
    "process-faults-cuda*", "process-*-cuda-peer", "process-*-integrated", "process-kill-cuda*", "process-standby-*",
    "process-storm-cuda", "process-switch-*", "process-waiting-*", "process-crowd", "process-group-opencl",
    "process-lines-[!t]*",
    "route@staged-*-opencl", "route@staged-opencl-*", "route@staged-across*", "route@map-*-opencl",
    "route@staged-hip-*", "route@staged-cuda-vulkan", "route@staged-vulkan-up", "route@push-*-hip", "route@push-hip-*",
    "route@peer-*", "route@*-dma-buf", "route@*-hip-wait-*", "route@*-integrated", "route@tcp-host-cuda-*",
    "route@tcp-host", "route@pairs", "route@*toy*", "[!m]*@hip[57]", "memory@hip7", "lies@cuda", "fallback@cuda",
    "fallback@vulkan", "dgma-layer-fork", "dgma-layer-merge-copies", "dgma-layer-firepro-two*",
    "fuzz-session-cuda", "fuzz-link-cuda", "fuzz-link-network", "fuzz-receiver-network", "fuzz-*-vulkan",
    "tools-hip", "gst-*-tcp", "gst-sound-tls", "gst-kills-opencl",
    "model-epochs", "model-group", "model-lines", "model-liar", "model-link", "model-ring", "model-steps",
    "model-waiting", "model-wakeup",
    "install-by-hand", "install-devenv", "rust-docs", "rust-installed", "rust-valgrind",
    "route@rdma-host-cuda-*", "route@staged-up", "tcp-listen",
    "tools-bundle", "tools-report", "tools-setup", "obs-colour", "obs-losses",
    "pipeline cuda cuda_1", "pipeline ffmpeg", "pipeline send-receive opencl_0", "pipeline send-receive hip_0",
    "pipeline lowest-latency hip_0", "pairs-[23]",
    "guest-selftest", "capture-colors-vivid", "capture-errors", "gst-inputs", "gst-beside", "gst-errors", "gst-states",
    "gst-import", "elements-vivid", "tools-capture", "tools-softroce", "rust-vivid", "rdma-channel", "rdma-connection",
    "rdma-hosts", "rdma-network", "rdma-transfer", "rdma-down",
]

# In the order in which they run: with --quick, by default, with --long. tools/check has the same names.
QUICK = {"build": Build("build", ["-Db_sanitize=none"], with_full=MINUTES, elsewhere={"asan": ASAN, "tsan": TSAN})}
ORDINARY = QUICK | {"asan": ASAN, "tsan": TSAN}
PARTS = ORDINARY | {"clang": CLANG, "lto": LTO, "debian14": debian14, "debian13": debian13, "debian12": debian12,
                    "arm64": arm64, "package": package, "container": container}


LINES = 60


def reason_of_skip(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.match(r"skip", line, re.IGNORECASE):
            return re.sub(r"^skip(ped)?\s*:?\s*", "", line, flags=re.IGNORECASE)
    return lines[-1] if lines else "no reason given"


def show(title, entries):
    """Each with the end of its output, which may be all that is kept of a run on another machine."""
    if entries:
        print(f"\n== {title} ==")
    for part, test, outcome in entries:
        print(f"{part:12} {jobs.short_name(test)}: {outcome}")
        printed = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
        for line in printed[-LINES:]:
            print(f"    {line}")


LONGEST = 10


def show_longest(runs):
    """Prints what takes the most time."""
    took = [(test.get("duration", 0), part, jobs.short_name(test)) for part, tests, _ in runs for test in tests]
    print("\n== the longest tests ==")
    for seconds, part, name in sorted(took, reverse=True)[:LONGEST]:
        print(f"{part:12} {seconds:5.0f} s  {name}")


def summary(runs):
    passed, failed, skipped, unsteady = 0, [], [], []
    print("\n== what ran ==")
    for part, tests, seconds in runs:
        by_suite = {}
        for test in tests:
            suite = jobs.suites(test)[0]
            by_suite[suite] = by_suite.get(suite, 0) + 1
            if test["result"] == "SKIP":
                skipped.append((part, test, test["result"]))
            elif test["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            else:
                failed.append((part, test, test["result"]))
            if "failed_first" in test:
                unsteady.append((part, test, f"{test['failed_first']}, then OK"))
        text = ", ".join(f"{suite} {count}" for suite, count in sorted(by_suite.items()))
        halves = [f"{took:.0f} s to {what}" for what, took in getattr(PARTS[part], "took", {}).items()]
        print(f"{part:12} {seconds:5.0f} s  {', '.join(halves) + ': ' if len(halves) > 1 else ''}{text}")
    show_longest(runs)
    print("\n== skipped ==" if skipped else "\nnothing was skipped")
    for part, test, _ in skipped:
        print(f"{part:12} {jobs.short_name(test)}: {reason_of_skip(test.get('stdout', ''))}")
    show("passed when run again, alone", unsteady)
    show("failed", failed)
    print(f"\n{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(prog="check", description=__doc__)
    parser.add_argument("--full", action="store_true", help="also what takes minutes")
    parser.add_argument("--long", action="store_true", help="also the long runs")
    parser.add_argument("--quick", action="store_true",
                        help="the ordinary build only, with the suites that depend on the distribution")
    parser.add_argument("--changed", action="store_true", help="the suites of what changed, in the ordinary build")
    parser.add_argument("--only", action="append", choices=PARTS, help="these parts alone")
    parser.add_argument("--begin-within", type=int, metavar="MINUTES", help="skip parts that would begin later")
    parser.add_argument("--figures", action="append", metavar="COMMIT", help="compare what a frame costs, and no more")
    args = parser.parse_args()

    jobs.end_with_signals()
    if args.figures:
        return figures(args.figures)
    runs, begun = [], time.monotonic()
    for name in args.only or (QUICK if args.quick or args.changed else PARTS if args.long else ORDINARY):
        start = time.monotonic()
        if args.begin_within and start - begun > 60 * args.begin_within:
            why = f"skipped: the parts before it took more than {args.begin_within} minutes"
            runs.append((name, [jobs.result(name, name, "SKIP", why)], 0))
            continue
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
