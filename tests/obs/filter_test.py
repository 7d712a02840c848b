# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The filter sends its source alone, with its sound and its own size, also while the source is in no scene that is
shown; what OBS shows of the source stays as it is."""

from studio import DEADLINE, FPS, HEIGHT, Programme, Studio, check, gpudirect, numpy, read_number, until

WIDE = 800

with Studio() as studio, Programme("cam1", width=WIDE) as programme:
    studio.ask("CreateScene", sceneName="Two")
    studio.add_source(address="cam1")
    until("a picture", lambda: studio.pixels("programme", WIDE) is not None)
    studio.ask("CreateSourceFilter", sourceName="programme", filterName="send", filterKind="gpudirect_filter",
               filterSettings={"address": "one"})
    for scene in "One", "Two":
        studio.ask("SetCurrentProgramScene", sceneName=scene)
        with gpudirect.Receiver("one", device="host", timeout=DEADLINE) as receiver:
            numbers = []
            while len(numbers) < 2 * FPS:
                with receiver.acquire() as frame:
                    pixels = numpy.asarray(frame)
                    numbers.append(read_number(pixels[:, :, 1]))
                    media = frame.media
                    check(pixels.shape == (HEIGHT, WIDE, 4) and frame.format == "BGRA", f"{frame.media}")
                    check(numpy.ptp(pixels[:, :, :3].astype(int), axis=2).max() <= 2, "grey is not grey")
                    check(pixels.min() <= 2 and pixels[:, :, :3].max() >= 253, "black is not 0, or white not 255")
        check(None not in numbers and numbers == sorted(numbers) and numbers[-1] - numbers[0] > FPS,
              f"numbers with scene {scene}: {numbers}")
    with gpudirect.Receiver("one/audio", device="host", timeout=DEADLINE) as receiver:
        until("a beep", lambda: numpy.abs(numpy.asarray(receiver.acquire())).max() > 0.1)
    studio.ask("SetSourceFilterEnabled", sourceName="programme", filterName="send", filterEnabled=False)
    studio.ask("RemoveSourceFilter", sourceName="programme", filterName="send")
    until("the channel's end", lambda: not any(channel["address"] == "one" for channel in gpudirect.channels()))
    # Another one stays until OBS ends, whose count of lost memory is looked at then.
    studio.ask("CreateSourceFilter", sourceName="programme", filterName="again", filterKind="gpudirect_filter",
               filterSettings={"address": "again"})
    until("the channel of another filter", lambda: any(channel["address"] == "again" and channel["media"]
                                                       for channel in gpudirect.channels()))
    print("numbers in order in a scene and out of it, with sound:", media)
