# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds Debian's packages of the commit that is checked out, in a fresh Debian made for it alone by mmdebstrap:

    ./tools/package                                   # for this Debian (or 12) and this processor
    ./tools/package --suite trixie --arch arm64 -o DIR
    ./tools/package --check                           # for all that a release has, and checks them

libgpudirect0, libgpudirect-dev, gstreamer1.0-gpudirect, gpudirect-tools, python3-gpudirect, librust-gpudirect-dev,
obs-gpudirect, gpudirect-dgma-layer and gpudirect-doc (not if cross compiled), and the source package. With --check it
also builds them twice and compares, runs lintian, installs and purges them in another fresh Debian, and runs their
tests there; programs for another processor run under qemu-user, and the tests do not. Unless --suite or --arch says
for which, --check is for Debian 12 and 13 on amd64 and Debian 13 on arm64, into a folder each; it goes on after a
failure, and says at its end what failed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools/check-parts"))

sys.path.insert(0, str(TOP / "tools"))

import jobs  # noqa: E402
import progress  # noqa: E402
import roots  # noqa: E402

SUITES = ["bookworm", "trixie"]
ARCHITECTURES = ["amd64", "arm64"]
KINDS = [("bookworm", "amd64"), ("trixie", "amd64"), ("trixie", "arm64")]  # that a release has
NO_DEBIAN = 3  # the exit status where a Debian cannot be made here
LIMIT = 4 * jobs.HOUR


def own_suite():
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME" and value in SUITES:
            return value
    return SUITES[0]


def own_architecture():
    own = roots.output_of("dpkg", "--print-architecture").strip() if shutil.which("dpkg") else ""
    return own if own in ARCHITECTURES else ARCHITECTURES[0]


# The lines by which package-parts/ says what it does next, and how much of the time each takes.
BUILD = [("a Debian of its own", 4), ("making the source", 1), ("installing what the build needs", 9),
         ("building the packages", 40)]
BUILD_AGAIN = [("building again", 40), ("lintian", 5)]
TRY = [("installing and purging", 5)]
TEST = [("their tests", 10)]


class Steps:
    """Shows how far all kinds of packages are, by the lines that are printed meanwhile."""

    def __init__(self, kinds, check):
        self.plan = []
        for suite, architecture in kinds:
            steps = BUILD + (BUILD_AGAIN + TRY if check else [])
            steps += TEST if check and architecture == own_architecture() else []
            self.plan += [(start, weight, f"{suite} {architecture}") for start, weight in steps]
        name = "package-check" if check else "package"
        self.bar = progress.Progress(progress.cache_file(f"{name}-{len(kinds)}"))
        self.at, self.within = -1, 0

    def line(self, text):
        built = re.fullmatch(r"   (?:built|installed) (\d+)/(\d+)\n", text)
        step = text.removeprefix("-- ")
        if built:
            self.within = max(self.within, int(built[1]) / max(int(built[2]), 1))
        else:
            self.bar.clear()
            print(text, end="", flush=True)
        for at in range(self.at + 1, len(self.plan)):
            if step != text and step.startswith(self.plan[at][0]):
                self.at, self.within = at, 0
                break
        if self.at >= 0:
            start, weight, kind = self.plan[self.at]
            done = sum(step[1] for step in self.plan[:self.at]) + self.within * weight
            self.bar.show(done / sum(step[1] for step in self.plan), f"{kind}: {start}")


def build(suite, architecture, folder, check, steps):
    """Leaves everything in the folder; False if it failed."""
    own = own_architecture()
    packages = ["git", "python3", "xz-utils", *(["lintian"] if check else [])]
    packages += [] if architecture == own else [f"crossbuild-essential-{architecture}"]
    steps.line("-- a Debian of its own, which takes a minute or two\n")
    status, _ = roots.run(
        suite, f"tools/package-parts/build {suite} {architecture} $OUT/packages {'check' if check else ''}",
        packages=packages, architectures=[own] if architecture == own else [own, architecture],
        fetch={"packages": folder}, limit=LIMIT, on_line=steps.line)
    return status == 0


def try_out(suite, architecture, folder, steps):
    """Installs, purges and tests them in a fresh Debian."""
    own = own_architecture()
    foreign = architecture != own
    status, _ = roots.run(suite, f"tools/package-parts/try /root/packages {architecture}",
                          packages=["qemu-user" if foreign else "autopkgtest", "apt-utils"],
                          architectures=[own, architecture] if foreign else [own], bring={folder: "packages"},
                          limit=LIMIT, on_line=steps.line)
    return status == 0


def make(suite, architecture, output, check, steps):
    """Why there are no good packages in the folder; None: there are."""
    with tempfile.TemporaryDirectory(prefix="gpudirect-package-") as scratch:
        folder = pathlib.Path(scratch)
        folder.chmod(0o755)
        if not build(suite, architecture, folder, check, steps):
            return "the packages could not be built, or fail their checks (see above)"
        if check and not try_out(suite, architecture, folder, steps):
            return "the packages do not work when they are installed (see above)"
        steps.bar.clear()
        output.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.iterdir()):
            shutil.copyfile(path, output / path.name)
            print(output / path.name, flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(prog="package", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=SUITES)
    parser.add_argument("--arch", choices=ARCHITECTURES)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=TOP / "gpudirect-packages", metavar="DIR",
                        help="where to put them (gpudirect-packages)")
    parser.add_argument("--check", action="store_true", help="also build twice, run lintian, install, purge and test")
    args = parser.parse_args()
    jobs.end_with_signals()
    if args.output.exists() and not args.output.is_dir():
        sys.exit(f"package: {args.output} is not a folder")
    try:
        # Before anything is installed in vain; other users need a program of mmdebstrap's for it.
        if os.geteuid() == 0 and shutil.which("unshare"):
            roots.check_namespaces()
    except roots.Unavailable as why:
        print(f"package: {why}", file=sys.stderr)
        sys.exit(NO_DEBIAN)
    # Where this fails, what is missing is named below.
    subprocess.run([TOP / "tools/setup", "package"], stdin=subprocess.DEVNULL)
    every = args.check and not args.suite and not args.arch
    kinds = KINDS if every else [(args.suite or own_suite(), args.arch or own_architecture())]
    steps = Steps(kinds, args.check)
    results = {}
    for suite, architecture in kinds:
        name = f"{suite} {architecture}"
        try:
            results[name] = make(suite, architecture, args.output / f"{suite}-{architecture}" if every else args.output,
                                 args.check, steps)
        except roots.Unavailable as why:
            steps.bar.clear()
            print(f"package: {why}", file=sys.stderr)
            sys.exit(NO_DEBIAN)
        steps.bar.clear()
        if every:
            print(f"package: {name}: {results[name] or 'all checks passed'}", flush=True)
    failed = {name: reason for name, reason in results.items() if reason}
    steps.bar.end(good=not failed)
    if failed:
        sys.exit("package: " + "; ".join(f"{name}: {why}" if every else why for name, why in failed.items()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("package: ended before its time")
