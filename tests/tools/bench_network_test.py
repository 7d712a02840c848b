# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench over tcp://: the ceilings, which move all bytes of all frames, elements over the same network, and
two network namespaces. Where it may, the test is in a network namespace of its own."""

import os
import pathlib
import socket
import subprocess
import sys
import tempfile

from tool import BENCH, SMALL, check, run, run_json

FRAMES, WARMUP = 40, 10
BYTES = 320 * 180 * 2
PACED = [*SMALL, "--fps", "200", "--frames", str(FRAMES)]
OURS = "GPUDIRECT_TEST_NAMESPACE"

if OURS not in os.environ and subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0:
    os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], os.environ | {OURS: "yes"})
ALONE = OURS in os.environ
if ALONE:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def free_address():
    """No other test listens there, or on the port after it."""
    if ALONE:
        return "tcp://127.0.0.1"
    with socket.create_server(("127.0.0.1", 0)) as one:
        return f"tcp://127.0.0.1:{one.getsockname()[1] - 1}"


def loopback_bytes():
    lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()
    return next(int(line.split()[9]) for line in lines if line.split()[0] == "lo:")


def ceilings(*args, env=None):
    """By key; the main one is TCP alone, and nothing was sent through the library."""
    result = run_json(BENCH, "--to", free_address(), "--ceilings", *args, env=env)
    check(result["fps"] is None and result["latency_us"]["p50"] is None and result["frames"] == 0 and
          not result["receivers"] and result["ceiling_ratio"] is None, f"something was sent: {result}")
    check(result["ceiling"]["key"] == "tcp", f"the main ceiling is {result['ceiling']}")
    return {ceiling["key"]: ceiling for ceiling in result["ceilings"]}


def plausible(ceiling, unit):
    check(ceiling["unit"] == unit and ceiling["value"] > 0, f"{ceiling}")
    check(ceiling["cpu_us_per_frame"]["sender"] > 0 and ceiling["cpu_us_per_frame"]["receiver"] > 0, f"CPU: {ceiling}")


# --- TCP alone, encrypted as the link is ---
for options, encrypted in (((), True), (("--allow-unauthenticated",), False)):
    fast = ceilings(*SMALL, *options)["tcp"]
    plausible(fast, "frames/s")
    check(("AES-128-GCM" in fast["what"]) == encrypted, f"with {options}: {fast}")
before = loopback_bytes()
paced = ceilings(*PACED)["tcp"]
moved = loopback_bytes() - before
plausible(paced, "us")
check(paced["p99"] >= paced["value"], f"p99 is less than p50: {paced}")
if ALONE:
    wanted = (FRAMES + WARMUP) * BYTES
    check(wanted <= moved < 1.2 * wanted, f"{moved} bytes were sent for {wanted} of frames")
text = run(BENCH, "--to", free_address(), "--ceilings", *PACED)[0]
wanted = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
check(f"(congestion control: {wanted})" in text, f"the congestion control is not named: {text}")
check("only ceilings" in text and "CPU of it, sender" in text and "lost" not in text, f"as text: {text}")
both = run_json(BENCH, "--to", free_address(), "--ceilings", *PACED, "--runs", "2")
check(len(both["runs"]) == 2 and both["summary"]["ceiling"]["min"] > 0, f"two runs: {both['summary']}")
# Without a network they are those of the host.
check(run_json(BENCH, "--ceilings", *SMALL)["ceiling"]["key"] in ("words", "upload", "memcpy"), "on the host")

# --- elements: {host} and {port} ---
if subprocess.run(["gst-inspect-1.0", "gdppay"], capture_output=True).returncode == 0:
    result = run_json(BENCH, "--to", free_address(), *PACED, "--warmup", "5", "--sink",
                      "gdppay ! tcpserversink host={host} port={port}", "--src",
                      "tcpclientsrc host={host} port={port} ! gdpdepay ! {caps}")
    check(result["frames"] == FRAMES and result["lost"] == result["torn"] == 0, f"through elements: {result}")
    check(result["latency_us"]["p50"] > 0 and result["ceiling"]["key"] == "tcp" and result["ceiling_ratio"] > 0 and
          result["ceiling_ratio_cpu"] > 0, f"through elements: {result}")

# --- two network namespaces ---
SPACES = ["--to", "tcp://198.18.0.2", "--net-namespaces", "--ceilings", *PACED]
if ALONE:
    before = loopback_bytes()
    plausible(run_json(BENCH, *SPACES)["ceiling"], "us")
    check(loopback_bytes() == before, "the frames went over the loopback device")
    check("bench" not in pathlib.Path("/proc/self/net/dev").read_text(), "a veth is left behind")
    with tempfile.TemporaryDirectory() as name:
        err = run(BENCH, *SPACES, status=1, env={"PATH": name})[1]
    check("--net-namespaces: " in err and "apt install iproute2" in err, f"without ip: {err!r}")
    done = subprocess.run(["unshare", "--user", BENCH, *SPACES], capture_output=True, text=True, timeout=90)
    check(done.returncode == 1 and ("it is for root" in done.stderr or done.stderr.startswith("unshare: ")),
          f"not as root: {done}")
else:
    print("no network namespaces can be made here: two are not tried")
