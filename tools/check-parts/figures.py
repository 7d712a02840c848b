# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a frame costs in this tree and in other commits: each is built for release, and they are measured by turns, so
that what else the machine does meets all of them."""

import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import jobs

HERE = "here"
ROUNDS = 5
RATE = 240
LIMIT = 240  # seconds, of a run
PACED, UNPACED = 480, 20000  # frames
TARGETS = {"bench": "gpudirect-bench", "plugin": "gstgpudirect"}
# By what a run prints. A ratio above 1 is more here than there.
FIGURES = {
    "frames/s": lambda run: None if run["parameters"]["fps"] else run["fps"],
    "latency p50, us": lambda run: run["latency_us"]["p50"] if run["parameters"]["fps"] else None,
    "sender's CPU, us a frame": lambda run: run["cpu_us_per_frame"]["sender"],
    "a receiver's CPU, us a frame": lambda run: run["cpu_us_per_frame"]["receiver"],
}


def gpu():
    """The device of the GPU that is measured, too; None: there is none."""
    return next((device for node, device in (("/dev/nvidia0", "cuda:0"), ("/dev/kfd", "hip:0"))
                 if os.path.exists(node)), None)


def cases():
    """The words of each, and the arguments of gpudirect-bench."""
    for device in filter(None, ("host", gpu())):
        where = [] if device == "host" else ["--from", device, "--to", device]
        for what, how in (("core", []), ("elements", ["--elements"])):
            if device.startswith("hip") and how:
                continue  # gpudirect-bench has no pictures of that memory
            for receivers in (1, 4):
                for pace, speed in (("paced", ["--fps", str(RATE), "--frames", str(PACED)]),
                                    ("not paced", ["--frames", str(UNPACED)])):
                    yield (f"{device}, {what}, {receivers} receiver{'s' * (receivers > 1)}, {pace}",
                           [*where, *how, *speed, "--receivers", str(receivers), "--width", "1920", "--height", "1080",
                            "--timeout", str(LIMIT), "--json"])


@contextlib.contextmanager
def checked_out(commit, folder):
    """A work tree of the commit, and of nothing else."""
    added = ["git", "worktree", "add", "--detach", str(folder), commit]
    try:
        yield jobs.succeeds(added)
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=jobs.TOP, capture_output=True)


def build(source, folder):
    """Returns the files of TARGETS; None: it does not build."""
    setup = ["meson", "setup", str(folder), str(source), "--buildtype=release", "-Dtests=disabled"]
    if not jobs.succeeds(setup, cwd=source):
        return None
    targets = json.loads((folder / "meson-info/intro-targets.json").read_text())
    files = {key: target["filename"][0] for key, name in TARGETS.items() for target in targets
             if target["name"] == name and target["type"] in ("executable", "shared library")}
    if set(files) != set(TARGETS):
        print(f"check: {source} builds no gpudirect-bench or no plugin", file=sys.stderr)
        return None
    wanted = [os.path.relpath(file, folder) for file in files.values()]
    return files if jobs.succeeds(["ninja", "-C", str(folder), *wanted], limit=2 * jobs.HOUR) else None


def measure(files, arguments, home):
    """What one run prints; None: it failed."""
    env = os.environ | {
        "GST_PLUGIN_PATH": os.path.dirname(files["plugin"]),
        "GST_REGISTRY": os.path.join(os.path.dirname(files["plugin"]), "registry.bin"),
        "XDG_RUNTIME_DIR": home,
    }
    done = subprocess.run([files["bench"], *arguments], env=env, capture_output=True, text=True, timeout=2 * LIMIT)
    try:
        return json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        return None


def medians(runs):
    """The median of each figure that these runs have."""
    values = {name: [value for value in map(read, runs) if value is not None] for name, read in FIGURES.items()}
    return {name: statistics.median(found) for name, found in values.items() if found}


def table(results, commits):
    """results: by case and tree the runs that succeeded."""
    lines = ["| | figure | here | " + " | ".join(f"{commit} | here/{commit}" for commit in commits) + " |",
             "|---|---|--:|" + "--:|" * 2 * len(commits)]
    for case, by_tree in results.items():
        found = {tree: medians(runs) for tree, runs in by_tree.items()}
        for figure in FIGURES:
            here = found[HERE].get(figure)
            if here is None:
                continue
            cells = []
            for commit in commits:
                there = found[commit].get(figure)
                cells += [f"{there:.1f}", f"{here / there:.2f}"] if there else ["-", "-"]
            lines.append(f"| {case} | {figure} | {here:.1f} | {' | '.join(cells)} |")
        counts = {tree: len(runs) for tree, runs in by_tree.items() if len(runs) < ROUNDS}
        lines += [f"| {case} | only {count} of {ROUNDS} runs of {tree} succeeded |" for tree, count in counts.items()]
    return "\n".join(lines)


def figures(commits):
    """Prints the table; the status of check."""
    if not shutil.which("git"):
        print("check: --figures needs git, and a clone with a history", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="gpudirect-figures-") as home, contextlib.ExitStack() as stack:
        home = pathlib.Path(home)
        trees = {HERE: build(jobs.TOP, home / "build-here")}
        for commit in commits:
            source = home / f"source-{commit.replace('/', '-')}"
            got = stack.enter_context(checked_out(commit, source))
            trees[commit] = build(source, home / f"build-{commit.replace('/', '-')}") if got else None
        if not all(trees.values()):
            return 1
        results = {}
        for number in range(ROUNDS):
            for case, arguments in cases():
                by_tree = results.setdefault(case, {tree: [] for tree in trees})
                order = list(trees)[number % len(trees):] + list(trees)[:number % len(trees)]
                for tree in order:
                    run = measure(trees[tree], arguments, str(home))
                    by_tree[tree] += [run] if run else []
            print(f"check: round {number + 1} of {ROUNDS}", flush=True)
        print(f"\nMedians of {ROUNDS} runs, 1920x1080; {RATE} frames/s where paced; by turns\n")
        print(table(results, commits))
        return 0 if all(runs for by_tree in results.values() for runs in by_tree.values()) else 1
