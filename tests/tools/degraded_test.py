# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""A lost fast path is seen everywhere: two processes with a GPU each, on the driver in host memory, of which neither
sees the other's, as in two containers. Both elements warn once, gpudirect-info shows it in bold on a terminal, in JSON
and as a metric, and the monitor in amber. A link beside it that has its fast path shows none of that."""

import contextlib
import os
import pathlib
import pty
import shutil
import subprocess
import tempfile

from browser import Browser
from monitors import CAPS, Monitor, wait_for_frames
from tool import DEADLINE, INFO, check, run, run_json, skip, wait_for

BOLD = "\033[1m"
WORSE = "is worse than the devices allow"
LOST, WELL = "lost", "well"
MASKS = {LOST: ("0", "1"), WELL: ("0,1", "1,0")}  # which GPUs the sender sees, and the receiver; each takes its first

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
runtime = tempfile.TemporaryDirectory()
folder = pathlib.Path(runtime.name)
os.environ |= {"XDG_RUNTIME_DIR": runtime.name, "LC_ALL": "C.UTF-8", "TERM": "xterm"}


class Launched:
    """gst-launch-1.0 with some of the GPUs; what it says goes to a file."""
    count = 0

    def __init__(self, gpus, *words):
        Launched.count += 1
        self.log = folder / f"log-{Launched.count}"
        env = os.environ | {"CUDA_VISIBLE_DEVICES": gpus, "LD_LIBRARY_PATH": os.environ["GPUDIRECT_FAKE_CUDA"],
                            "GPUD_FAKE_CUDA_DEVICES": "2"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(["gst-launch-1.0", *words], env=env, stdout=log, stderr=log)

    def warnings(self):
        return self.log.read_text(errors="replace").count(f"{WORSE}: ")

    def kill(self):
        self.process.kill()
        self.process.wait()


def send(address):
    return Launched(MASKS[address][0], "videotestsrc", "is-live=true", "!", CAPS.format("UYVY"), "!", "gpudirectsink",
                    f"address={address}", "device=cuda:0")


def receive(address):
    return Launched(MASKS[address][1], "gpudirectsrc", f"address={address}", "device=cuda:0", "on-eos=wait", "!",
                    "fakesink")


def receiver_of(address):
    channel = next((one for one in run_json(INFO, "--channels")["channels"] if one["address"] == address), None)
    found = channel and channel["receivers"]
    return found[0] if found and found[0]["frames"] > 0 else None


def on_terminal(*command):
    master, slave = pty.openpty()
    with contextlib.closing(os.fdopen(master, "rb", buffering=0)) as terminal:
        process = subprocess.Popen(command, stdout=slave, stderr=slave)
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # its end
            while data := terminal.read(65536):
                said += data
        check(process.wait(DEADLINE) == 0, f"{command} ends with {process.returncode}")
    return said.decode()


def check_info():
    for address, route, kind in ((LOST, "staged", "hidden"), (WELL, "peer", None)):
        receiver = wait_for(f"frames of {address}", lambda: receiver_of(address))
        check((receiver["route"], receiver["degraded"]) == (route, kind), f"{address}: {receiver}")
    check("does not see the receiver's GPU" in receiver_of(LOST)["reason"], f"{receiver_of(LOST)}")
    text, terminal = run(INFO, "--channels")[0], on_terminal(INFO, "--channels")
    check("worse than the devices allow (hidden), because" in " ".join(text.split()) and "\033" not in text, text)
    bold = [line for line in terminal.splitlines() if BOLD in line]
    check(len(bold) == 1 and "staged to cuda:0" in bold[0], f"on a terminal: {terminal!r}")
    metrics = run(INFO, "--metrics")[0]
    for address, kind, value in ((LOST, "hidden", 1), (WELL, "", 0)):
        sample = [line for line in metrics.splitlines()
                  if line.startswith(f'gpudirect_route_degraded{{channel="{address}"')]
        check(len(sample) == 1 and sample[0].endswith(f'kind="{kind}"}} {value}'), f"{address}: {sample}")


def check_monitor(monitor):
    for address, severity, state in ((LOST, "warning", "Route degraded"), (WELL, "good", "OK")):
        wait_for_frames(monitor, address, 1)
        wait_for(f"{address} is {state}", lambda: (monitor.channel(address)["severity"],
                                                   monitor.channel(address)["state"]) == (severity, state))
    check(monitor.has_event("degraded", "staged") and not monitor.has_event("degraded", "by peer"), "its events")
    check(f'gpudirect_route_degraded{{channel="{LOST}"' in monitor.ask("/metrics")[2].decode(), "its metrics")


def check_page(monitor):
    """Last: where there is no browser the test ends here."""
    browser = Browser()

    def amber():
        return browser.run("""
            const of = (card, what) => card.querySelector(what)?.textContent ?? '';
            return [...document.querySelectorAll('article')].map((card) => [of(card, 'h3'), of(card, '.title .warn'),
                of(card, 'p.warn'), of(card, 'dd.warn')]).sort()""")
    try:
        browser.open(monitor.url)
        wait_for("the page", lambda: len(amber()) == 2 and amber()[0][3])
        (lost, state, reason, route), well = amber()
        check((lost, state) == (LOST, "Route degraded") and reason.startswith("Worse than the devices allow (hidden)")
              and route.startswith("staged to cuda:0"), f"the page shows {amber()}")
        check(well == [WELL, "", "", ""], f"the page shows {amber()}")
        check(not browser.log_lines(), "the browser complains")
    finally:
        browser.close()


launched = []
try:
    senders = {address: send(address) for address in (LOST, WELL)}
    receivers = {address: receive(address) for address in (LOST, WELL)}
    launched += [*senders.values(), *receivers.values()]
    check_info()
    # The sender has warned of its first receiver, and does not again of the next one; nor does a receiver of its next
    # sender.
    receivers[LOST].kill()
    launched.append(again := receive(LOST))
    wait_for("the second receiver's warning", lambda: again.warnings() == 1)
    senders[LOST].kill()
    launched.append(other := send(LOST))
    wait_for("the second sender's warning", lambda: other.warnings() == 1)
    wait_for("frames of the second sender", lambda: receiver_of(LOST))
    for one, count in ((senders[LOST], 1), (receivers[LOST], 1), (again, 1), (senders[WELL], 0), (receivers[WELL], 0)):
        check(one.warnings() == count, f"{one.warnings()} warnings, and {count} is right: {one.log.read_text()}")
    monitor = Monitor()
    try:
        check_monitor(monitor)
        if Browser.missing:
            print(f"not shown: the monitor's page, {Browser.missing}")
        else:
            check_page(monitor)
    finally:
        monitor.kill()
finally:
    for one in launched:
        one.kill()
