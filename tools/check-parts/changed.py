# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What changed since the branch left origin's main, or else in the last commit: which suites are worth running for it,
and what clang-format and clang-tidy report about it."""

import re
import shutil
import subprocess

import jobs

# The suites that test a folder, by the longest listed prefix of a path. tests/NAME has the suite NAME if there is one.
SUITES = {
    "core/base": ["unit", "process", "conformance"],
    "core/device": ["unit", "conformance", "fakes", "process"],
    "core/device/opencl": ["conformance", "dgma-layer"],
    "core/device/rdma": ["unit", "fakes", "rdma"],
    "core/topology": ["unit", "tools"],
    "core/frame": ["unit", "conformance", "plugins"],
    "core/wire": ["unit", "process", "fuzz", "conformance"],
    "core/wire/rdma": ["unit", "rdma"],
    "core/route": ["unit", "conformance"],
    "core/capture": ["unit", "capture"],
    "core/target": ["unit", "capture", "conformance"],
    "core/transfer": ["unit", "rdma", "fuzz"],
    "core/stream": ["unit", "conformance", "process", "fuzz", "model", "pairs"],
    "include": ["unit", "conformance", "process", "plugins", "tools", "bindings", "rust"],
    "pipelines": ["pipelines"],
    "plugins/gst": ["plugins", "pipelines", "pairs"],
    "plugins/dgma-layer": ["dgma-layer"],
    "plugins/python": ["python", "bindings"],
    "plugins/rust": ["rust", "bindings"],
    "plugins/obs": ["obs"],
    "tests/kill": ["process"],
    "tests/support": ["unit", "conformance", "process", "plugins"],
    "tools": ["tools"],
}
ALWAYS = ["style"]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=jobs.TOP, capture_output=True, text=True)


def base():
    """The commit that changes are counted from; None outside of a clone."""
    left = git("merge-base", "HEAD", "origin/main").stdout.strip()
    head = git("rev-parse", "HEAD").stdout.strip()
    if left and left != head:
        return left
    return git("rev-parse", "--verify", "-q", "HEAD~1").stdout.strip() or None


def files():
    since = base()
    return git("diff", "--name-only", "--diff-filter=d", since).stdout.split() if since else []


def suites_of(path, known):
    places = [place for place in SUITES if path == place or path.startswith(place + "/")]
    if places:
        return SUITES[max(places, key=len)]
    folders = path.split("/")
    if folders[0] == "tests" and len(folders) > 2:
        return [folders[1]] if folders[1] in known else []
    return []


def suites(known):
    """The suites for all that changed; `known`: the existing suites."""
    found = {suite for path in files() for suite in suites_of(path, known)}
    return sorted((found & set(known)) | set(ALWAYS))


def format_result(part):
    """Changed lines are formatted by .clang-format, of the version that formatted the others."""
    name = "clang-format of what changed"
    since = base()
    if not since:
        return jobs.result(part, name, "SKIP", "skipped: this is not a clone with a history")
    if not shutil.which("git-clang-format"):
        return jobs.result(part, name, "SKIP", "skipped: no git-clang-format (Debian: clang-format)")
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if not re.search(r"version 14\.", version):
        return jobs.result(part, name, "SKIP", f"skipped: the tree is formatted by version 14, this is {version}")
    diff = git("clang-format", "--diff", since, "--extensions", "c,h,cpp,hpp").stdout
    good = not diff.startswith("diff")
    return jobs.result(part, name, "OK" if good else "FAIL", "" if good else diff)


def tidy_result(part, folder):
    """What clang-tidy finds in the files that changed and that the build compiles."""
    name = "clang-tidy of what changed"
    if not shutil.which("clang-tidy"):
        return jobs.result(part, name, "SKIP", "skipped: no clang-tidy (Debian: clang-tidy)")
    changed = [path for path in files() if path.endswith(".c") and path.split("/")[0] in ("core", "plugins", "tools")]
    if not changed:
        return jobs.result(part, name, "OK", "no source file of the product changed")
    print(f"+ clang-tidy of {len(changed)} files", flush=True)
    done = subprocess.run(["clang-tidy", "--quiet", "-p", folder, *changed], cwd=jobs.TOP, capture_output=True,
                          text=True)
    return jobs.result(part, name, "FAIL" if done.returncode else "OK", done.stdout)
