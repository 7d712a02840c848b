# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info --channels: pipelines that send and receive are seen in both forms, once and once a second; those that
are stopped are told of, and those that are gone are not. Those out of sight are found by their address or folder, and
by root."""

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile

import schemas
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


def check_out_of_sight(process, address):
    """Of a program with another XDG_RUNTIME_DIR, as of another login or container."""
    with tempfile.TemporaryDirectory() as other:
        env = {"XDG_RUNTIME_DIR": other}
        out = flowing(run(INFO, "--channels", env=env)[0])
        check(out.startswith(f"No sender: there is no channel in {other}/gpudirect Not seen from here: ") and
              "--all-users" in out, f"out of sight: {out!r}")
        for args in ([address], ["--directory", runtime.name]):
            found = wait_for(f"an answer to {args}", lambda: [
                channel for channel in run_json(INFO, "--channels", *args, status=None, env=env)["channels"]
                if channel["answered"]])
            check([(one["address"], one["pid"], one["user"]) for one in found] ==
                  [(address, process.pid, os.geteuid())], f"{args}: {found}")
        out = run(INFO, "--channels", "--directory", runtime.name, env=env)[0]
        check(out.startswith(f"Channels in {runtime.name}\n  {address} "), f"{out}")
        found = run_json(INFO, "--channels", "--directory", f"{runtime.name}/gpudirect", env=env)["channels"]
        check({one["address"] for one in found} == {f"unix:{runtime.name}/gpudirect/cam1", address}, f"{found}")
    out = flowing(run(INFO, "--channels", "unix:/nowhere/cam1", status=1)[0])
    check(out.startswith("No sender listens on /nowhere/cam1; there is no folder /nowhere here"), f"{out!r}")
    check(not run_json(INFO, "--channels", "nothere", status=1)["channels"], "a channel that is not there")
    run(INFO, "--metrics", "nothere")
    err = run(INFO, "--channels", "--directory", "/nowhere", status=1)[1]
    check("/nowhere: No such file" in err, f"{err!r}")


def check_all_users():
    """As root; other users' senders lie in folders of theirs."""
    nobody = 65534
    if os.geteuid() != 0:
        check("needs root" in run(INFO, "--channels", "--all-users", status=1)[1], "without root's rights")
        return
    readable = ["test", "-r", f"{os.environ['GST_PLUGIN_PATH']}/libgstgpudirect.so"]
    if subprocess.run(readable, user=nobody, group=nobody, extra_groups=[]).returncode:
        print("another user's channel: not tried, for other users cannot read this folder")
        return
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o777)
        env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
        address = f"test-{os.getpid()}"
        process = subprocess.Popen(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "!", CAPS, "!",
                                    "gpudirectsink", f"address={address}"], user=nobody, group=nobody,
                                   extra_groups=[], env=env | {"GST_REGISTRY": f"{home}/registry", "HOME": home})
        started.append(process)
        found = wait_for("another user's channel", lambda: [
            one for one in run_json(INFO, "--channels", "--all-users")["channels"]
            if one["address"].endswith(f"/{address}") and one["answered"]])
        check(found[0]["user"] == nobody and found[0]["pid"] == process.pid, f"{found}")
        out = run(INFO, "--channels", "--all-users")[0]
        check("Channels in /tmp/gpudirect-65534\n" in out and "(gst-launch-1.0) of nobody" in flowing(out) and
              "\n  cam1 " in out, f"{out}")
        out = flowing(run(INFO, "--channels", address, status=1)[0])
        check(f"there is /tmp/gpudirect-65534/{address}" in out, f"root is not told where it is: {out}")
        check(address not in run(INFO, "--channels")[0], "another user's channel without being asked for")
        end(process)


def check_waiting():
    """Receivers without a sender: of a bare name, and of a path elsewhere, seen in its folder, too. Of one that
    was killed nothing is shown."""
    elsewhere = f"unix:{runtime.name}/late"
    ours, theirs, killed = receive("none"), receive(elsewhere), receive("none")

    def waiting(*args):
        return [(one["address"], one["pid"], one["name"]) for one in
                run_json(INFO, "--channels", *args, status=None)["waiting"] if one["address"] in ("none", elsewhere)]
    name = "gst-launch-1.0"
    wait_for("three that wait", lambda: len(waiting()) == 3)
    check(set(waiting()) == {("none", ours.pid, name), ("none", killed.pid, name), (elsewhere, theirs.pid, name)},
          f"{waiting()}")
    check(waiting("--directory", runtime.name) == [(elsewhere, theirs.pid, name)], "in its folder")
    check(waiting(elsewhere) == [(elsewhere, theirs.pid, name)], "of the one that was asked for")
    both = waiting("--directory", runtime.name, "--directory", f"{runtime.name}/gpudirect")
    check(len(both) == 3, f"of two folders: {both}")
    out = flowing(run(INFO, "--channels")[0])
    check("Receivers that wait for a sender" in out and f"none process {ours.pid} ({name}), for " in out, f"{out}")
    check('gpudirect_receivers_waiting{channel="none"} 2\n' in run(INFO, "--metrics")[0], "the metric")
    killed.kill()
    killed.wait()
    wait_for("one that was killed waits no longer", lambda: len(waiting()) == 2)
    sender = send("none")
    wait_for("one that has its sender waits no longer", lambda: waiting() == [(elsewhere, theirs.pid, name)])
    end(theirs)
    check(waiting() == [] and not [one for one in os.listdir(runtime.name) if one.startswith(".waiting")],
          "a receiver that has ended left something")
    for process in (ours, sender):
        process.kill()
        process.wait()


def check_tensors():
    """They are named by their types and sizes; JSON has what they are together."""
    sender = launch("fakesrc", "is-live=true", "do-timestamp=true", "sizetype=fixed", "sizemax=2048",
                    "format=time", "!",
                    'other/tensors,format=static,num_tensors=2,dimensions=(string)"6:64\\,64",'
                    'types=(string)"float32\\,int64",framerate=25/1,names=(string)"boxes\\,classes"', "!",
                    "gpudirectsink", "address=cam1/boxes")
    boxes = wait_for_channel("cam1/boxes", lambda channel: channel.get("format"))
    check(boxes["format"] == {"name": "tensors", "width": 1, "height": 1, "size_bytes": 64 * 6 * 4 + 64 * 8},
          f"{boxes['format']}")
    out = flowing(run(INFO, "--channels")[0])
    check('cam1/boxes float32 64x6 "boxes", int64 64 "classes"' in out, f"{out}")
    check('media="tensor"' in run(INFO, "--metrics", "cam1/boxes")[0], "the metrics")
    end(sender)


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
    check(out.startswith(f"No sender: there is no channel in {runtime.name}/gpudirect\n"), f"without a sender: {out!r}")
    check(channels() == {}, "channels from nowhere")

    check_tensors()
    elsewhere = f"unix:{runtime.name}/studio"
    first, second = send("cam1"), send(elsewhere)
    stream = send("zoo/wide")
    receivers = [receive("cam1"), receive("cam1")]
    cam1 = wait_for_channel("cam1", lambda channel: channel.get("fps") and len(channel["receivers"]) == 2 and
                            all(receiver["latency_ns"] for receiver in channel["receivers"]))
    check(cam1["pid"] == first.pid and cam1["program"] == "gst-launch-1.0", f"sent by {cam1['pid']} {cam1['program']}")
    check(cam1["format"] == {"name": "UYVY", "width": 320, "height": 180, "size_bytes": 320 * 180 * 2},
          f"{cam1['format']}")
    check(cam1["slow_receiver"] == "drop-oldest" and cam1["device"] == "host" and not cam1["ended"], f"{cam1}")
    check(0 < cam1["fps"] < 1000 and cam1["frames"] > 0 and cam1["age_ns"] >= 0, f"{cam1}")
    check({receiver["pid"] for receiver in cam1["receivers"]} == {process.pid for process in receivers},
          f"{cam1['receivers']}")
    for receiver in cam1["receivers"]:
        check(receiver["state"] == "streaming" and receiver["route"] == "map" and receiver["frames"] > 0 and
              receiver["name"] == "gst-launch-1.0" and receiver["reason"] is None and
              receiver["host"] is None and receiver["encrypted"] is None, f"{receiver}")
    wait_for_channel(elsewhere, lambda channel: channel["answered"] and channel["pid"] == second.pid)
    wait_for_channel("zoo/wide", lambda channel: channel["answered"])

    # A machine that is busy elsewhere may not answer in time.
    out = wait_for("both answers", lambda: next((out for out, _ in [run(INFO, "--channels")]
                                                 if "does not answer" not in flowing(out)), None))
    check(out.startswith(f"Channels in {runtime.name}/gpudirect\n  cam1 "), f"{out}")
    check(f"\nChannels in {runtime.name}\n  {elsewhere} " in out, f"under another folder's name: {out}")
    places = [line for line in out.splitlines() if line.startswith("Channels in ")]
    check(len(places) == len(set(places)), f"a folder's heading twice: {out}")
    stream.send_signal(signal.SIGINT)
    stream.wait(DEADLINE)
    out = flowing(out)
    check("UYVY 320x180" in out and f"process {first.pid} (gst-launch-1.0)" in out and elsewhere in out and
          f"→ process {receivers[0].pid} (gst-launch-1.0): map" in out, f"{out}")
    check("no receivers" in out, f"{out}")

    check_out_of_sight(second, elsewhere)
    check_all_users()

    # Once a second: on a terminal in place, else block by block, for programs line by line.
    check(check_watch(terminal=True).count("\033[H\033[2J") >= 2, "a terminal is not drawn anew")
    check("\033" not in check_watch(terminal=False), "escapes where there is no terminal")
    lines = check_watch("--json", terminal=False).splitlines()
    lists = [schemas.require("channels.json", json.loads(line), "--channels --watch") for line in lines]
    seen = [{channel["address"] for channel in one["channels"]} for one in lists]
    check(len(seen) >= 2 and all(addresses == {"cam1", elsewhere} for addresses in seen), f"{lines}")

    # A stopped sender does not hide the others.
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

    check_waiting()

    for args, says in ((["--watch"], "--channels"), (["--channels", "--measure"], "--measure"),
                       (["cam1"], "no arguments without --channels"), (["--channels", "cam1", "cam2"], "one address"),
                       (["--channels", "cam1", "--all-users"], "do not go together")):
        check(says in run(INFO, *args, status=2)[1], f"{args} is not refused with {says}")
finally:
    for process in started:
        process.kill()
