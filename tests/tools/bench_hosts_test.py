# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Two benches on two hosts, each of which is a guest and runs this: the first sends, the second receives."""

import json
import os
import sys
import time

import schemas
from tool import BENCH, Running, check, children, cpu_percent, run, skip, wait_for

PATIENCE = 150
SENDS = os.environ.get("GPUDIRECT_HOST") == "1"
LINK = f"rdma://{os.environ.get('GPUDIRECT_ADDRESS' if SENDS else 'GPUDIRECT_PEER')}:7174"
FRAMES = 30
os.environ |= {"GST_PLUGIN_SYSTEM_PATH": "/nonexistent", "GST_REGISTRY": "/tmp/registry.bin"}

if os.environ.get("GPUDIRECT_ADDRESS") == os.environ.get("GPUDIRECT_PEER"):
    skip("there is one host: run it by tests/vm/guest --hosts 2")
with open("/tmp/key", "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as key:
    key.write("what both hosts have, and nobody else")

for what, more in (("frames", ["--verify", "full"]), ("elements", ["--elements"])):
    mine = ["--to", LINK, "--remote", "--width", "640", "--height", "360", "--frames", str(FRAMES), "--warmup", "4"]
    out = run(BENCH, "--json", "--timeout", str(PATIENCE), "--psk-file", "/tmp/key",
              *([*mine, *more] if SENDS else ["--receive", LINK]), deadline=3 * PATIENCE)[0]
    result = schemas.require("bench.json", json.loads(out), "gpudirect-bench")
    check(result["frames"] == FRAMES and result["lost"] == 0 and result["torn"] == 0, f"{what}: {result}")
    check(result["receivers"][0]["frames"] == FRAMES and result["route"] == "rdma-host", f"{what}: {result}")
    check(result["ceiling"]["key"] == "write" and result["ceiling_ratio"] > 0, f"{what}: {result['ceiling']}")
    cpu = result["cpu_us_per_frame"]
    check(cpu["sender"] > 0 and cpu["receiver"] > 0, f"{what}: {cpu}")
    # Two hosts have two clocks.
    check(result["latency_us"]["p50"] is None, f"{what}: a latency by two clocks, {result['latency_us']}")
    print(f"{what}: {result['fps']:.1f} frames/s, {result['ceiling_ratio']:.2f} of plain writes, {cpu} us a frame")
    sys.stdout.flush()

# Without frames: each host looks at its own process, after a frame; one is due every five seconds.
OWN = "sender" if SENDS else "receiver"
bench = Running("--timeout", str(PATIENCE), "--psk-file", "/tmp/key",
                *([*mine, "--warmup", "0", "--frames", "3", "--fps", "0.2"] if SENDS else ["--receive", LINK]))
wait_for("the process", lambda: OWN in children(bench.process.pid), PATIENCE)
if SENDS:
    wait_for("the frames", lambda: not os.listdir(bench.folder.name), PATIENCE)
time.sleep(6)
idle = cpu_percent({OWN: children(bench.process.pid)[OWN]})
status, err = bench.end()
check(status == 0, f"a bench with few frames ends with {status}: {err}")
check(0 <= idle[OWN], f"{idle} % of a processor")
print(f"without frames: {idle} % of a processor")
