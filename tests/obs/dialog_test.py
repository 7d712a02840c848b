# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The output's dialog, opened by its entry in the menu: its buttons start and stop the output, also in an OBS without
obs-websocket, in which the plugin says once that there are no requests."""

import sys
import time

from studio import DEADLINE, MAIN_WINDOW, Studio, check, close_window, gpudirect, until, xdotool

TITLE = "Properties for 'gpudirect output'"
COLUMN = 184  # of the dialog's pixels: the buttons begin left of it, and end right of it


def open_dialog():
    xdotool("windowfocus", "--sync", xdotool("search", "--name", MAIN_WINDOW)[0])
    xdotool("key", "alt+t", "Up", "Return")  # the last of the tools
    return until("the output's dialog", lambda: xdotool("search", "--name", TITLE))[0]


def press(what, dialog, rows, happens):
    """Clicks from row to row, whose height depends on OBS's theme, until something happens. Returns the row."""
    for row in rows:
        xdotool("mousemove", "--window", dialog, str(COLUMN), str(row), "click", "1")
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if happens():
                return row
            time.sleep(0.02)
    check(False, f"{what}: no click in rows {list(rows)} does it")


def check_buttons(is_on):
    dialog = open_dialog()
    row = press("the start of the output", dialog, range(50, 200, 10), is_on)
    with gpudirect.Receiver("obs", device="host", timeout=DEADLINE) as receiver:
        with receiver.acquire() as frame:
            check("NV12" in frame.media, frame.media)
    press("the end of the output", dialog, range(row + 10, row + 150, 10), lambda: not is_on())
    close_window(TITLE)
    until("the dialog's end", lambda: not xdotool("search", "--name", TITLE))
    print("the dialog's buttons start and stop the output")


def check_alone():
    with Studio(remote=False) as studio:
        said = "obs-websocket is not loaded: the output starts and stops in its dialog alone"
        check(studio.log.read_text().count(said) == 1, f"the log does not say once that {said}")
        check_buttons(lambda: any(channel["address"] == "obs" for channel in gpudirect.channels()))


def check_remote():
    with Studio() as studio:
        check_buttons(lambda: studio.vendor("GetStatus")["active"])


if __name__ == "__main__":
    check_alone() if sys.argv[1:] == ["alone"] else check_remote()
