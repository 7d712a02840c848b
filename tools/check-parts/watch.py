# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""How far Ninja and `meson test` are, by what they print."""

import re
import sys

import jobs

sys.path.insert(0, str(jobs.TOP / "tools"))
import progress  # noqa: E402 (in the folder above)

COMPILED = re.compile(r"\[(\d+)/(\d+)\]")
TESTED = re.compile(r"\s*(\d+)/(\d+) (.+?) +(OK|SKIP|EXPECTEDFAIL|" + "|".join(jobs.FAILURES) + r")\b")


class Compiling:
    def __init__(self, folder):
        self.shown = progress.Progress()
        self.folder = folder

    def line(self, text):
        if found := COMPILED.match(text):
            done, count = map(int, found.groups())
            self.shown.show(done / count, f"{self.folder}: {done} of {count} steps")

    def end(self):
        self.shown.end()


class Testing:
    """last: the entries of the last run's log, whose durations weigh the tests; its time is in a file beside."""

    def __init__(self, part, log, last):
        self.part, self.failed = part, 0
        self.shown = progress.Progress(log.with_suffix(".seconds"))
        self.durations = {test["name"]: test.get("duration", 0) for test in last}
        self.done = self.total = 0.0
        self.count = None

    def share(self, done, count, name):
        """By duration where the last run had the same number of tests, else by number."""
        if self.count is None:
            self.count = count
            same = len(self.durations) == count and sum(self.durations.values()) > 0
            self.total = sum(self.durations.values()) if same else 0
        self.done += self.durations.get(name, 0)
        return min(self.done / self.total, 1) if self.total else done / count

    def line(self, text):
        found = TESTED.match(text)
        if not found:
            self.say(text)
            return
        done, count, name, outcome = int(found[1]), int(found[2]), found[3].strip(), found[4]
        self.failed += outcome in jobs.FAILURES
        # On a terminal the bar is enough of what went well.
        if outcome in jobs.FAILURES or not self.shown.stream.isatty() or self.shown.off:
            self.say(text)
        failed = f", {self.failed} failed" if self.failed else ""
        self.shown.show(self.share(done, count, name), f"{self.part}: {done} of {count} tests{failed}")

    def say(self, text):
        self.shown.clear()
        print(text, end="", flush=True)

    def end(self):
        self.shown.end(good=self.count is not None)
