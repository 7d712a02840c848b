# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""How far something long is: on a terminal a line that is rewritten, in a log a line for each tenth, and nothing with
GPUDIRECT_PROGRESS=off. progress.sh does the same in shells."""

import os
import pathlib
import shutil
import sys
import time

BAR = 20


def in_words(seconds):
    return f"about {round(seconds / 60)} min left" if seconds >= 90 else f"about {max(round(seconds), 1)} s left"


def cache_file(name):
    """How long it took the last time is remembered here, where no other folder is given."""
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "/nonexistent"), ".cache")
    return pathlib.Path(folder) / "gpudirect" / f"{name}.seconds"


class Progress:
    """Of one thing. file: remembers its duration; what is left is estimated from that, or from what is done."""

    def __init__(self, file=None, stream=None):
        self.file, self.stream = file, stream or sys.stdout
        self.begun, self.said, self.open = time.monotonic(), None, False
        self.off = os.environ.get("GPUDIRECT_PROGRESS") == "off"
        try:
            self.last = float(file.read_text()) if file else None
        except (OSError, ValueError):
            self.last = None

    def left(self, share):
        took = time.monotonic() - self.begun
        if self.last is not None:
            return in_words(self.last * (1 - share)) if share < 1 else ""
        return in_words(took * (1 - share) / share) if 0.05 <= share < 1 and took > 2 else ""

    def show(self, share, text):
        """share: 0 to 1 of the work; text: what is at hand."""
        if self.off:
            return
        line = ", ".join(part for part in (text, self.left(share)) if part)
        percent = int(share * 100)
        if self.stream.isatty():
            line = f"[{'#' * int(share * BAR):.<{BAR}}] {percent:3} % {line}"[:shutil.get_terminal_size().columns - 1]
            print(f"\r\033[K{line}", end="", file=self.stream, flush=True)
            self.open = True
        elif self.said != percent // 10:
            self.said = percent // 10
            print(f"   {percent} % {line}", file=self.stream, flush=True)

    def clear(self):
        """Before other lines."""
        if self.open:
            print("\r\033[K", end="", file=self.stream, flush=True)
        self.open = False

    def end(self, good=True):
        """good: its duration is remembered."""
        self.clear()
        if good and self.file:
            try:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.write_text(f"{time.monotonic() - self.begun:.1f}\n")
            except OSError:
                pass  # then there is no estimate the next time
