# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What OBS renders, as another program receives it: a source's numbers in order, its flashes with its beeps, and no
picture of it while another scene is shown. Then the output is started and stopped 200 times, and OBS's descriptors and
threads stay as many as they were."""

import math
import statistics
import threading
import time

from studio import DEADLINE, FPS, HEIGHT, RATE, WIDTH, Programme, Studio, check, gpudirect, numpy, read_number, until

SECONDS = 4
APART = 0.03  # less than one of OBS's pictures; mostly it is 1 to 2 ms


class Listener:
    """Receives the output in two threads."""

    def __init__(self, address):
        self.numbers, self.flashes, self.beeps, self.media = [], [], [], set()
        self.receivers = [gpudirect.Receiver(address, device="host", timeout=1),
                          gpudirect.Receiver(f"{address}/audio", device="host", timeout=1)]
        self.running = True
        self.threads = [threading.Thread(target=self.run, args=pair, daemon=True)
                        for pair in zip(self.receivers, (self.see, self.hear))]
        for thread in self.threads:
            thread.start()

    def run(self, receiver, use):
        while self.running:
            try:
                with receiver.acquire() as frame:
                    self.media.add(frame.media)
                    use(frame)
            except (gpudirect.Timeout, gpudirect.Closed, gpudirect.PeerLost):
                pass

    def see(self, frame):
        luma = numpy.asarray(frame.planes["Y"])
        self.numbers.append(read_number(luma))
        bright = luma[HEIGHT // 2, WIDTH // 2] > 128
        if bright and (not self.flashes or frame.pts / 1e9 - self.flashes[-1] > 0.5):
            self.flashes.append(frame.pts / 1e9)

    def hear(self, frame):
        loud = numpy.flatnonzero(numpy.abs(numpy.asarray(frame)[:, 0]) > 0.1)
        if len(loud):
            at = frame.pts / 1e9 + loud[0] / RATE
            if not self.beeps or at - self.beeps[-1] > 0.5:
                self.beeps.append(at)

    def apart(self):
        """How much later beeps are than the flashes beside them, in seconds: the median of the last ones."""
        apart = [beep - flash for flash in list(self.flashes) for beep in list(self.beeps) if abs(beep - flash) < 0.4]
        return statistics.median(apart[1 - SECONDS:]) if len(apart) >= SECONDS - 1 else math.inf

    def end(self):
        self.running = False
        for thread in self.threads:
            thread.join(DEADLINE)
        for receiver in self.receivers:
            receiver.close()


def check_programme(studio):
    answer = studio.vendor("StartOutput", address="out")
    check(answer["started"] and answer["address"] == "out", f"the output does not start: {answer}")
    listener = Listener("out")
    # Where other programs take the processor OBS misses flashes, and shows some late.
    until("flashes in step with their beeps", lambda: len(listener.numbers) > SECONDS * FPS and
          abs(listener.apart()) <= APART, 3 * DEADLINE, lambda: f"{listener.flashes}, {listener.beeps}")
    status = studio.vendor("GetStatus")
    check(status["active"] and status["receivers"] == 1 and not status["error"], f"the output's status: {status}")

    numbers = [number for number in listener.numbers if number is not None]
    check(len(numbers) > (SECONDS - 1) * FPS and numbers == sorted(numbers), f"numbers: {listener.numbers}")
    picture = next(media for media in listener.media if media.startswith("video"))
    for part in ("format=(string)NV12", f"width=(int){WIDTH}", "framerate=(fraction)25/1", "colorimetry=(string)bt709"):
        check(part in picture, f"{part} is missing in {picture}")
    print(f"{len(numbers)} numbers in order, beeps {1000 * listener.apart():+.1f} ms after their flashes")

    for scene, numbered in [("Two", False), ("One", True)] * 3:
        studio.ask("SetCurrentProgramScene", sceneName=scene)
        until(f"scene {scene}", lambda: all((number is not None) == numbered for number in listener.numbers[-3:]))
    first = studio.rendered()
    until("OBS's next pictures", lambda: studio.rendered() > first + FPS // 2)
    listener.end()
    studio.vendor("StopOutput")
    until("the end of the output", lambda: not studio.vendor("GetStatus")["active"])


def check_starts(studio):
    def cycle():
        check(studio.vendor("StartOutput")["started"], "the output does not start again")
        until("a picture", lambda: studio.vendor("GetStatus")["frames"] > 0)
        studio.vendor("StopOutput")
        until("the end of the output", lambda: not studio.vendor("GetStatus")["active"])

    cycle()
    before = studio.resources()
    began = time.monotonic()
    for _ in range(50):
        cycle()
    for _ in range(150):  # it may be stopped before it has begun
        check(studio.vendor("StartOutput")["started"], "the output does not start at once")
        studio.vendor("StopOutput")
        until("the end of a short output", lambda: not studio.vendor("GetStatus")["active"])
    for number in range(10):  # while the last one may still be ending
        address = f"out-{number}"
        check(studio.vendor("StartOutput", address=address)["started"], "the output does not start behind its end")
        with gpudirect.Receiver(address, device="host", timeout=DEADLINE) as receiver:
            receiver.acquire().release()
        studio.vendor("StopOutput")
    until("the end of the last output", lambda: not studio.vendor("GetStatus")["active"])
    until("descriptors and threads as before", lambda: all(
        now <= then + 2 for now, then in zip(studio.resources(), before)))
    print(f"200 starts and stops, {5 * (time.monotonic() - began):.0f} ms each; descriptors and threads: {before} "
          f"before, {studio.resources()} after")


def check_own_requests(studio):
    """The same by obs-websocket's requests for any output of OBS's, which know nothing of the plugin."""
    studio.ask("StartOutput", outputName="gpudirect")
    until("a picture", lambda: studio.vendor("GetStatus")["frames"] > 0)
    studio.ask("StopOutput", outputName="gpudirect")
    until("the end of the output", lambda: not studio.vendor("GetStatus")["active"])


def check_refusal(studio):
    """An address that another sender has."""
    with Programme("taken", sound=False):
        studio.vendor("StartOutput", address="taken")
        error = until("the refusal", lambda: studio.vendor("GetStatus")["error"])
        check("taken" in error, f"a taken address: {error}")
        until("the end of the refused output", lambda: not studio.vendor("GetStatus")["active"])


with Studio() as studio:
    with Programme("cam1") as programme:
        studio.ask("CreateScene", sceneName="Two")
        studio.add_source(address="cam1")
        until("a picture", lambda: studio.shows("programme"))
        until("its sound", lambda: programme.number > FPS)
        check_programme(studio)
        check_starts(studio)
        check_own_requests(studio)
        check_refusal(studio)
