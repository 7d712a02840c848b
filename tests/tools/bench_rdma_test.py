# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""In the guest, over soft-RoCE: rping, ib_write_bw and gpudirect-bench one after the other, with one table of what they
reach; then two benches as on two hosts, and liars among them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from hosts import ORDER, RESULT, Peer
import schemas
from tool import BENCH, check, idle_percent, run, run_json, skip, wait_for

PATIENCE = 180
ADDRESS = os.environ.get("GPUDIRECT_ADDRESS")
WIDTH, HEIGHT, SLOTS = 640, 360, 4
BYTES = WIDTH * HEIGHT * 2
SIZE = ["--width", str(WIDTH), "--height", str(HEIGHT), "--slots", str(SLOTS), "--warmup", "8", "--timeout", "150"]
LINK = f"rdma://{ADDRESS}:7174"
os.environ |= {"GST_PLUGIN_SYSTEM_PATH": "/nonexistent", "GST_REGISTRY": "/tmp/registry.bin"}
rows = []

if not ADDRESS:
    skip("GPUDIRECT_ADDRESS is not set: run it by tests/vm/guest --rdma")
for program, package in (("rping", "rdmacm-utils"), ("ib_write_bw", "perftest")):
    if not shutil.which(program):
        skip(f"{program} is not installed ({package})")


def row(what, size, rate, ratio=None, sender=None, receiver=None):
    rows.append([what, f"{size}", f"{rate:.1f}", f"{rate * size / 1e6:.1f}", "-" if ratio is None else f"{ratio:.2f}",
                 *("-" if cpu is None else f"{cpu / 1000:.1f}" for cpu in (sender, receiver))])


def print_table():
    names = ["", "bytes", "a second", "MB/s", "of plain writes", "CPU ms, sender", "receiver"]
    widths = [max(len(line[i]) for line in [names, *rows]) for i in range(len(names))]
    for line in [names, *rows]:
        print("  ".join([line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:]))]))
    sys.stdout.flush()


def pair(server, client):
    """The client's output and duration; it is restarted until there is a listener."""
    serving = subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + PATIENCE
    while True:
        start = time.monotonic()
        done = subprocess.run(client, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0:
            break
        check(time.monotonic() < end and serving.poll() is None, f"{client}: {done.stdout}{done.stderr}")
        time.sleep(0.5)
    took = time.monotonic() - start
    said = serving.communicate(timeout=PATIENCE)[0]
    check(serving.returncode == 0, f"{server} ends with {serving.returncode}: {said}")
    return done.stdout, took


def both(sending, receiving):
    """Two benches as on two hosts: status, standard output and error of each."""
    benches = [subprocess.Popen([BENCH, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for args in (receiving, sending)]
    ends = [(*bench.communicate(timeout=2 * PATIENCE), bench.returncode) for bench in benches]
    return [(status, out, err) for out, err, status in reversed(ends)]


def whole(result, frames, receivers=1):
    check(result["frames"] == frames and result["lost"] == 0 and result["torn"] == 0, f"not all arrived: {result}")
    check([line["frames"] for line in result["receivers"]] == [frames] * receivers, f"{result['receivers']}")
    check(result["route"] == "rdma-host", f"the route is {result['route']}")
    cpu = result["cpu_us_per_frame"]
    check(cpu["sender"] > 0 and cpu["receiver"] > 0, f"CPU time: {cpu}")


def has_ceiling(result, unit="frames/s"):
    ceiling = result["ceiling"]
    check(ceiling["key"] == "write" and ceiling["unit"] == unit and ceiling["value"] > 0, f"the ceiling is {ceiling}")


# --- others' programs ---
count = 20
took = pair(["rping", "-s", "-a", ADDRESS, "-C", str(count), "-S", "65000", "-V"],
            ["rping", "-c", "-a", ADDRESS, "-C", str(count), "-S", "65000", "-V"])[1]
row("rping (there and back, checked)", 65000, count / took)
write = ["ib_write_bw", "-F", "-R", "-d", "rxe0", "-s", str(BYTES), "-n", "60", "-t", str(SLOTS)]
out = pair(write, [*write, ADDRESS])[0]
figures = [words for words in map(str.split, out.splitlines()) if words[:1] == [str(BYTES)]]
check(len(figures) == 1, f"ib_write_bw printed no figures: {out}")
row("ib_write_bw", BYTES, float(figures[0][3]) * 2 ** 20 / BYTES)

# --- one host ---
for what, more in (("gpudirect-bench", ["--runs", "3", "--verify", "marks"]),
                   ("gpudirect-bench --elements", ["--runs", "3", "--elements"])):
    result = run_json(BENCH, "--to", LINK, *SIZE, "--frames", "60", *more, deadline=3 * PATIENCE)
    median = {key: result["summary"][key]["median"] for key in result["summary"]}
    for each in result["runs"]:
        whole(each, 60)
        has_ceiling(each)
    row(f"plain writes beside {what}", BYTES, median["ceiling"])
    row(what, BYTES, median["fps"], median["fps"] / median["ceiling"], median["cpu_us_per_frame_sender"],
        median["cpu_us_per_frame_receiver"])

# Every byte, to two receivers, of foreign frames, in a size that no card likes; and then none.
result = run_json(BENCH, "--to", LINK + "/name", "--width", "319", "--height", "177", "--format", "I420",
                  "--timeout", "150", "--receivers", "2", "--source", "foreign", "--verify", "full", "--frames", "40",
                  deadline=PATIENCE)
whole(result, 40, 2)
has_ceiling(result)
check(result["copies"]["cpu"] == 1, f"foreign frames are copied: {result['copies']}")
idle = idle_percent("--to", LINK, *SIZE)
check(0 <= idle["sender"] and 0 <= idle["receiver"], f"without frames: {idle} % of a processor")

# At a pace, by a key of one's own: how late frames are, beside one plain write.
with open("/tmp/key", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
    key.write("what both hosts have, and nobody else")
paced = run_json(BENCH, "--to", LINK, *SIZE, "--frames", "30", "--fps", "5", "--psk-file", "/tmp/key",
                 deadline=PATIENCE)
whole(paced, 30)
has_ceiling(paced, "us")
check(paced["latency_us"]["p50"] > 0 and paced["ceiling_ratio"] > 0, f"{paced['latency_us']}")

print_table()
print(f"without frames: {idle['sender']:.2f} % of a processor at the sender, {idle['receiver']:.2f} % at the receiver")
late, ceiling = paced["latency_us"]["p50"] / 1000, paced["ceiling"]["value"] / 1000
print(f"at 5 frames/s: {late:.1f} ms, a plain write {ceiling:.1f} ms")
sys.stdout.flush()

# --- two benches, as on two hosts ---
sending = ["--to", LINK, "--remote", *SIZE, "--frames", "30", "--json", "--psk-file", "/tmp/key"]
receiving = ["--receive", LINK, "--timeout", "150", "--json", "--psk-file", "/tmp/key"]
for more in (["--verify", "full"], ["--elements"], ["--runs", "2"]):
    ends = both([*sending, *more], receiving)
    check([end[0] for end in ends] == [0, 0], f"{more}: {ends}")
    sides = [schemas.require("bench.json", json.loads(end[1]), "gpudirect-bench") for end in ends]
    for mine, theirs in zip(*(side.get("runs", [side]) for side in sides)):
        whole(mine, 30)
        has_ceiling(mine)
        check(mine["parameters"]["remote"], f"{mine}")
        for side in (mine, theirs):
            side.pop("machine")
        check(mine == theirs, f"the two sides report different things: {mine}, {theirs}")
idle = idle_percent(*sending, other=receiving)
check(0 <= idle["sender"] and 0 <= idle["receiver"], f"two benches without frames: {idle} % of a processor")
print(f"two benches without frames: {idle}")

# Another key: both say why, and end.
with open("/tmp/other", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
    key.write("a key that only one of them has")
ends = both(sending, [*receiving[:-1], "/tmp/other"])
check([end[0] for end in ends] == [1, 1], f"with different keys: {ends}")
check("key" in ends[0][2] and "key" in ends[1][2], f"different keys are not named: {ends}")

# A receiving bench that is killed, and one that is interrupted.
for number, text in ((signal.SIGKILL, "ended without a result"), (signal.SIGINT, "interrupted by signal 2")):
    benches = [subprocess.Popen([BENCH, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for args in (receiving, [*sending, "--frames", "10000000"])]
    wait_for("a receiver", lambda: "@receiver" in subprocess.run(["ps", "-ef"], capture_output=True, text=True).stdout,
             PATIENCE)
    benches[0].send_signal(number)
    err = benches[1].communicate(timeout=PATIENCE)[1]
    benches[0].communicate(timeout=PATIENCE)
    check(benches[1].returncode == 1 and text in err, f"signal {number} to the other bench: {err!r}")


# --- liars ---
def connect():
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection((ADDRESS, 7175), timeout=PATIENCE)
        except OSError as error:
            check(time.monotonic() < end, f"the sending bench does not listen: {error}")
            time.sleep(0.2)


def samples(peer):
    """A result whose numbers of samples add up to a multiple of 2^64 bytes."""
    size = (hello.sizes >> 16 & 0xffff) - 8
    peer.send(RESULT, (bytes(7) + b"\x20") * (size // 8))


for what, expected, act in (
        ("a short result", "receiver 1 on 192.168.77.1 sent nonsense", lambda peer: peer.send(RESULT, bytes(9))),
        ("many samples", "receiver 1 on 192.168.77.1 sent nonsense", samples),
        ("a huge message", "ended without a result", lambda peer: peer.header(RESULT, 1 << 40)),
        ("nothing more", "ended without a result", lambda peer: peer.socket.close()),
        ("a failure for terminals", "192.168.77.1: ?[31mred", lambda peer: peer.fail("\033[31mred"))):
    bench = subprocess.Popen([BENCH, *sending], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    stranger, liar = connect(), Peer(connect())
    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" * 40)  # is no receiver, which does no harm
    hello = liar.hello()
    liar.send(8, hello.pack())
    check(liar.receive()[0] == ORDER, f"{what}: no order")
    act(liar)
    out, err = bench.communicate(timeout=PATIENCE)
    check(bench.returncode == 1 and expected in err and out == "", f"{what}: {bench.returncode}, {err!r}, {out!r}")
    check("\033" not in err, f"{what}: a terminal obeys {err!r}")
err = run(BENCH, "--to", LINK, "--remote", *SIZE[:-1], "1", "--psk-file", "/tmp/key", status=1)[1]
check("0 of 1 receivers are there: run gpudirect-bench --receive" in err, f"without receivers: {err!r}")
print("done")
