# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info --channels: pipelines that send and receive are seen in both forms, once and once a second; those that
are stopped are told of, and those that are gone are not."""

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile

from tool import DEADLINE, INFO, check, run, run_json, skip, wait_for

CAPS = "video/x-raw,format=UYVY,width=320,height=180,framerate=25/1"

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")

runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
started = []


def launch(*words):
    process = subprocess.Popen(["gst-launch-1.0", "-q", *words], stdout=subprocess.DEVNULL)
    started.append(process)
    return process


def send(address):
    return launch("videotestsrc", "is-live=true", "!", CAPS, "!", "gpudirectsink", f"address={address}")


def receive(address):
    return launch("gpudirectsrc", f"address={address}", "!", "fakesink")


def channels():
    """By address."""
    return {channel["address"]: channel for channel in run_json(INFO, "--channels")["channels"]}


def wait_for_channel(address, condition):
    """The channel, once it is so."""
    def look():
        channel = channels().get(address)
        return channel if channel and condition(channel) else None
    return wait_for(f"{address} in the right state", look)


def flowing(text):
    """As it reads, wherever lines are wrapped."""
    return " ".join(text.split())


def end(process):
    process.send_signal(signal.SIGINT)
    process.wait(DEADLINE)


def check_watch(*options, terminal):
    """What comes in the first two turns; Ctrl-C is a good end."""
    outside, inside = pty.openpty() if terminal else os.pipe()
    watch = subprocess.Popen([INFO, "--channels", "--watch", *options], stdout=inside)
    os.close(inside)
    text = b""
    while text.count(b"cam1") < 2:
        text += os.read(outside, 4096)
    watch.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(outside, 4096)
        except OSError:  # a terminal that is gone
            break
        if not more:
            break
        text += more
    check(watch.wait(DEADLINE) == 0, f"Ctrl-C ends --watch with {watch.returncode}")
    os.close(outside)
    return text.decode()


try:
    out, _ = run(INFO, "--channels")
    check(out == f"Nobody sends: no channel is in {runtime.name}/gpudirect\n", f"without a sender: {out!r}")
    check(channels() == {}, "channels from nowhere")

    elsewhere = f"unix:{runtime.name}/studio"
    first, second = send("cam1"), send(elsewhere)
    receivers = [receive("cam1"), receive("cam1")]
    cam1 = wait_for_channel("cam1", lambda channel: channel.get("rate") and len(channel["receivers"]) == 2 and
                            all(receiver["latency"] for receiver in channel["receivers"]))
    check(cam1["pid"] == first.pid and cam1["program"] == "gst-launch-1.0", f"sent by {cam1['pid']} {cam1['program']}")
    check(cam1["format"] == {"name": "UYVY", "width": 320, "height": 180, "size": 320 * 180 * 2}, f"{cam1['format']}")
    check(cam1["slow_receiver"] == "drop-oldest" and cam1["device"] == "host" and not cam1["ended"], f"{cam1}")
    check(0 < cam1["rate"] < 1000 and cam1["frames"] > 0 and cam1["age"] >= 0, f"{cam1}")
    check({receiver["pid"] for receiver in cam1["receivers"]} == {process.pid for process in receivers},
          f"{cam1['receivers']}")
    for receiver in cam1["receivers"]:
        check(receiver["state"] == "streaming" and receiver["route"] == "map" and receiver["frames"] > 0 and
              receiver["name"] == "gst-launch-1.0" and receiver["reason"] is None and
              receiver["host"] is None, f"{receiver}")
    wait_for_channel(elsewhere, lambda channel: channel["answered"] and channel["pid"] == second.pid)

    # A machine that is busy elsewhere may not answer in time.
    out = wait_for("both answers", lambda: next((out for out, _ in [run(INFO, "--channels")]
                                                 if "does not answer" not in flowing(out)), None))
    check(out.startswith(f"Channels in {runtime.name}/gpudirect\n  cam1 "), f"{out}")
    out = flowing(out)
    check("UYVY 320x180" in out and f"process {first.pid} (gst-launch-1.0)" in out and elsewhere in out and
          f"→ process {receivers[0].pid} (gst-launch-1.0): map" in out, f"{out}")
    check("nobody receives it" in out, f"{out}")

    # Once a second: on a terminal in place, else block by block, for programs line by line.
    check(check_watch(terminal=True).count("\033[H\033[2J") >= 2, "a terminal is not drawn anew")
    check("\033" not in check_watch(terminal=False), "escapes where there is no terminal")
    lines = check_watch("--json", terminal=False).splitlines()
    seen = [{channel["address"] for channel in json.loads(line)["channels"]} for line in lines]
    check(len(seen) >= 2 and all(addresses == {"cam1", elsewhere} for addresses in seen), f"{lines}")

    # Whoever is stopped does not hide the others.
    second.send_signal(signal.SIGSTOP)
    stopped = wait_for_channel(elsewhere, lambda channel: not channel["answered"])
    check(f"process {second.pid} is stopped" in stopped["reason"] and "frames" not in stopped, f"{stopped}")
    wait_for_channel("cam1", lambda channel: channel["answered"])
    check(f"does not answer; process {second.pid} is stopped" in
          flowing(run(INFO, "--channels")[0]), "the text is silent on it")
    second.send_signal(signal.SIGCONT)
    wait_for_channel(elsewhere, lambda channel: channel["answered"])

    end(receivers[0])
    wait_for_channel("cam1", lambda channel: len(channel.get("receivers", [])) == 1)
    second.kill()
    second.wait(DEADLINE)
    check(set(channels()) == {"cam1"}, f"{set(channels())} are left")
    check(not [name for name in os.listdir(f"{runtime.name}/gpudirect") if name.startswith(".unix")], "a sign is left")

    for args, says in ((["--watch"], "--channels"), (["--channels", "--measure"], "--measure")):
        check(says in run(INFO, *args, status=2)[1], f"{args} is not refused with {says}")
finally:
    for process in started:
        process.kill()
