# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A channel in OBS, and in a recording that OBS makes of it: numbers in order, and each flash with its beep; and in the
list of channels. Then its sender is stopped, killed, restarted and changes its format, and the source shows what its
settings say."""

import os
import signal
import statistics
import subprocess
import sys
import time

from studio import DEADLINE, FPS, RATE, Programme, Studio, check, numpy, until

SECONDS = 4
# OBS's recordings themselves begin with up to a picture, and up to a block of AAC, more of the one than of the other:
# its own media source is 26 to 41 ms apart in one. output_test.py measures the source itself.
APART = 1 / FPS + 1024 / RATE + 0.01

# A sender that can be killed.
SENDER = "import studio, sys; studio.Programme('cam1', width=int(sys.argv[1]), more='colorimetry=bt709').thread.join()"


def check_recording(studio):
    with studio.recording() as recording:
        first = studio.rendered()
        until("pictures", lambda: studio.rendered() > first + SECONDS * FPS, 3 * DEADLINE)
        stats = studio.ask("GetStats")
    numbers = recording.numbers
    check(len(numbers) >= (SECONDS - 1) * FPS and None not in numbers, f"numbers in the recording: {numbers}")
    steps = [after - before for before, after in zip(numbers, numbers[1:])]
    late = stats["renderSkippedFrames"] + stats["outputSkippedFrames"]
    check(min(steps) >= 0, f"the recording goes back: {numbers}")
    # One that OBS does not render in time, or that the sender's thread sends late, costs a repetition and a number.
    odd = sum(step != 1 for step in steps)
    check(odd <= 2 * late + len(steps) // 5, f"{odd} numbers are missing or repeated, and OBS was late {late} times: "
          f"{numbers}")
    apart = recording.apart()
    check(len(apart) >= SECONDS - 2, f"flashes: {recording.flashes}, beeps: {recording.beeps}, numbers: {numbers}")
    median = statistics.median(apart)
    print(f"{len(numbers)} numbers, {odd} missing or repeated ({late} late); beeps are {1000 * median:+.0f} ms after "
          "their flashes")
    check(abs(median) <= APART, f"picture and sound are {1000 * median:+.0f} ms apart, more than {1000 * APART:.0f} ms")


def brightness(studio, name):
    pixels = studio.pixels(name)
    return None if pixels is None or not pixels[:, :, 3].any() else int(pixels[:, :, :3].max())


def check_losses(studio):
    def send(width=640):
        return subprocess.Popen([sys.executable, "-c", SENDER, str(width)], cwd=os.path.dirname(__file__))

    def shown(what):
        until(f"{what} in each source", lambda: all((brightness(studio, name) or 0) > 200 for name in names))

    def lost(what):
        until(f"black and nothing {what}", lambda: brightness(studio, "black") == 0 and
              brightness(studio, "nothing") is None)
        held = [studio.shows("hold") for _ in range(3)]
        check(held[0] is not None and len(set(held)) == 1, f"the last picture is not held {what}: {held}")

    names = ["hold", "black", "nothing"]
    for name in names:
        studio.add_source(name, address="cam1", lost=name, lost_ms=300)
    sender = send()
    try:
        shown("a picture")
        sender.send_signal(signal.SIGSTOP)
        lost("when the sender stands still")
        sender.send_signal(signal.SIGCONT)
        shown("a picture after that")
        sender.kill()
        sender.wait()
        lost("when the sender is dead")
        sender = send()
        shown("a picture of the next sender")
        sender.kill()
        sender.wait()
        sender = send(320)
        until("a narrower picture", lambda: studio.pixels("hold", 320) is not None)
    finally:
        sender.kill()
        sender.wait()
    print("sources show what their settings say when a sender stands still, dies, restarts and changes its format")


def check_list(studio):
    def listed():
        items = studio.ask("GetInputPropertiesListPropertyItems", inputName="programme", propertyName="address")
        return [item["itemValue"] for item in items["propertyItems"]]

    until("the channel in the list", lambda: listed() == ["cam1"])
    with Programme("cam2", sound=False):
        until("another channel in the list", lambda: listed() == ["cam1", "cam2"])
    until("the list without it", lambda: listed() == ["cam1"])


if __name__ == "__main__":
    with Studio() as studio:
        if sys.argv[1:] == ["losses"]:
            check_losses(studio)
        else:
            with Programme("cam1") as programme:
                studio.add_source(address="cam1")
                until("a picture", lambda: studio.shows("programme"))
                until("its sound", lambda: programme.number > FPS)
                check_recording(studio)
                check_list(studio)
