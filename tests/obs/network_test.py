# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A source and the output over TCP, each with the key of a file: numbers come from a sender through OBS to a receiver,
with sound. Without the key the receiver gets nothing, and the source says why."""

import socket

from studio import DEADLINE, FPS, Programme, Studio, check, folder, gpudirect, numpy, read_number, until


def choose_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


key = folder / "key"
key.touch(0o600)
key.write_text("no more than a test's key, of 32 bytes or more")
sent, rendered = (f"tcp://127.0.0.1:{choose_port()}/{name}" for name in ("cam", "out"))

with Studio(output={"address": rendered, "psk_file": str(key)}) as studio:
    with Programme(sent, psk_file=str(key)):
        studio.add_source("keyless", address=sent)
        until("a sentence about the key", lambda: "psk" in studio.log.read_text())
        check(studio.shows("keyless") is None, "without the key the source shows a picture")
        studio.ask("RemoveInput", inputName="keyless")
        studio.add_source(address=sent, psk_file=str(key))
        until("a picture by TCP", lambda: studio.shows("programme"))

        check(studio.vendor("StartOutput")["address"] == rendered, "OBS has not read the output's settings")
        until("the output's channel", lambda: studio.vendor("GetStatus")["frames"])
        numbers = []
        with gpudirect.Receiver(rendered, device="host", timeout=DEADLINE, psk_file=str(key)) as receiver:
            while len(set(numbers)) < FPS:
                with receiver.acquire() as frame:
                    number = read_number(numpy.asarray(frame.planes["Y"]))
                    check(number is not None, f"no number behind {numbers}")
                    numbers.append(number)
        check(numbers == sorted(numbers), f"numbers by TCP: {numbers}")
        with gpudirect.Receiver(f"{rendered}/audio", device="host", timeout=DEADLINE, psk_file=str(key)) as receiver:
            until("a beep by TCP", lambda: numpy.abs(numpy.asarray(receiver.acquire())).max() > 0.1)
        try:
            gpudirect.Receiver(rendered, device="host", timeout=DEADLINE).acquire()
            check(False, "the output has a receiver without its key")
        except gpudirect.Error as error:
            print(f"{len(numbers)} numbers in order by TCP, with sound; without the key: {error}")
        studio.vendor("StopOutput")
        until("the end of the output", lambda: not studio.vendor("GetStatus")["active"])
