# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The tools with CUDA devices, on the driver in host memory and a management library of the test's own: what links the
GPUs, every route between them, marks written and read by streams, and the ceilings beside them."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import starting
from gpus import SMALL, check_run, check_vendor
from tool import BENCH, INFO, check, refused, run, run_json

# Nothing that a test's runner adds: it would bring the management library to where it shall be missing.
os.environ["LD_LIBRARY_PATH"] = os.environ["GPUDIRECT_FAKE_CUDA"]
os.environ["GPUD_FAKE_CUDA_DEVICES"] = "4"
NVML = {"LD_LIBRARY_PATH": os.environ["GPUDIRECT_FAKE_NVML"] + ":" + os.environ["LD_LIBRARY_PATH"]}


# --- gpudirect-info

def links_of(report):
    return {(link["from"], link["to"]): link for link in report["links"]
            if link["from"].startswith("cuda") and link["to"].startswith("cuda")}


report = run_json(INFO, env=NVML)
links = links_of(report)
check(len(links) == 12, f"links are {sorted(links)}")
for pair, name, bandwidth in ((("cuda:0", "cuda:1"), "NV18", 18 * 26562e6), (("cuda:2", "cuda:3"), "NV2", 2 * 26562e6),
                              (("cuda:0", "cuda:2"), "?", 16 * 3938e6), (("cuda:3", "cuda:1"), "?", 8 * 3938e6)):
    link = links[pair]
    check(link["link"] == name and link["direct"] and link["atomics"] and link["rank"] == 0 and link["reason"] is None,
          f"{pair}: {link}")
    attributed = link["bandwidth_bytes_per_second"]
    check(abs(attributed / bandwidth - 1) < 1e-6, f"{pair} has {attributed} bytes/s, not {bandwidth}")
    check(link["measured_bytes_per_second"] is None, f"{pair} was measured without a request")
text = run(INFO, env=NVML)[0]
rows = [line.split() for line in text.splitlines()]
check(["cuda:0", "X", "NV18", "?", "?"] in rows, f"the matrix reads\n{text}")
check("NV#: so many NVLinks" in text and "up to 478 GB/s, atomics" in text, f"the links read\n{text}")

# Without the management library: what the driver says. Without access: a reason.
link = links_of(run_json(INFO))["cuda:0", "cuda:1"]
check(link["direct"] and link["bandwidth_bytes_per_second"] is None, f"without NVML: {link}")
link = links_of(run_json(INFO, env={"GPUD_FAKE_CUDA_PEERS": "0"}))["cuda:0", "cuda:1"]
check(not link["direct"] and "peer-to-peer" in link["reason"], f"without access: {link}")
check("no access: " in run(INFO, env={"GPUD_FAKE_CUDA_PEERS": "0"})[0], "without access the text says nothing")

# On a machine that hwloc is told of: what the buses say stands behind NVLink, and each GPU knows what is beside it.
made_up = pathlib.Path(os.environ["GPUDIRECT_TOPOLOGY"]).read_text()
for card, bus in (("0000:02:00.0", 1), ("0000:03:00.0", 2), ("0000:04:00.0", 3), ("0000:82:00.0", 4)):
    made_up = made_up.replace(card, f"face:{bus:02x}:00.0")
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "topology.xml").write_text(made_up)
    BUSES = {**NVML, "HWLOC_XMLFILE": f"{folder}/topology.xml", "HWLOC_THISSYSTEM": "0"}
    report, text = run_json(INFO, env=BUSES), run(INFO, env=BUSES)[0]
    one, alone = ({**BUSES, "GPUD_FAKE_CUDA_DEVICES": "1"}, {**NVML, "GPUD_FAKE_CUDA_DEVICES": "1"})
    report_of_one, text_of_one = run_json(INFO, env=one), run(INFO, env=one)[0]
links = links_of(report)
for pair, path, distance in ((("cuda:0", "cuda:1"), "nvlink NV18", "pix"), (("cuda:2", "cuda:3"), "nvlink NV2", "sys"),
                             (("cuda:0", "cuda:2"), "pcie PHB", "phb"), (("cuda:1", "cuda:3"), "pcie SYS", "sys")):
    found = [links[pair], *(route for route in report["routes"] if (route["from"], route["to"]) == pair)]
    check(len(found) == 2 and all(each["path"] == path and each["distance"] == distance for each in found),
          f"{pair} go by {found}, and {path}, distance {distance} is right")
rows = [line.split("  ")[-1] for line in text.splitlines()]
check(rows.count("peer (nvlink NV18; PCI distance pix)") == 2, f"routes over NVLink read\n{text}")
check(rows.count("peer (distance phb)") == 4, f"routes over PCIe read\n{text}")
check("nvlink NV18 (PCI: pix): writes directly" in text and "pcie PHB: writes directly" in text,
      f"links read\n{text}")
for report, text, gpus in ((report, text, 4), (report_of_one, text_of_one, 1)):
    places = {device["name"]: device for device in report["devices"]}
    place = places["cuda:0"]
    check(place["numa_node"] == 0 and place["cpus"] == "0-2", f"cuda:0 is at {place}")
    check([(each["to"], each["kind"], each["pci"], each["distance"]) for each in place["distances"]]
          == [("host", "host", None, "sys"), ("mlx5_0", "network", "0000:03:00.1", "pix"),
              ("eth0", "network", "0000:03:00.1", "pix"), ("0000:04:00.1", "capture", "0000:04:00.1", "phb")],
          f"beside cuda:0 are {place['distances']}")
    check(places["host"]["cpus"] is None and places["host"]["distances"] == [], f"the host is at {places['host']}")
    check("NUMA node 0, CPUs 0-2\n" in text, f"the devices read\n{text}")
    check("\nLinks\n" in text and "→ host: distance sys; it is next to NUMA node 0, CPUs 0-2\n" in text
          and "→ mlx5_0 (network, at 0000:03:00.1): distance pix\n" in text, f"{gpus} GPUs, the links read\n{text}")
    check(("one GPU: there is no other" in text) == (gpus == 1), f"{gpus} GPUs, the links read\n{text}")
text = run(INFO, env=alone)[0]
check("→ host: distance unknown; its position is unknown\n" in text, f"a GPU that is nowhere reads\n{text}")

measured = links_of(run_json(INFO, "--measure", env={"GPUD_FAKE_CUDA_DEVICES": "2"}))
check(all(link["measured_bytes_per_second"] > 1e6 for link in measured.values()), f"measured: {measured}")
one = run(INFO, "--measure", env={"GPUD_FAKE_CUDA_DEVICES": "1"})[0]
check("Not measured: this machine has fewer than two CUDA devices" in one, f"one GPU, measured:\n{one}")


# --- gpudirect-bench

check_vendor("cuda")

# A way from GPU to GPU that is slower than the detour is not taken, and the reason has the figures; where the detour is
# not wanted, or its speed is unknown, the direct way is taken.
LARGE = ["--no-ceilings", "--width", "1920", "--height", "1080", "--frames", "20", "--from", "cuda:0", "--to", "cuda:1"]
SLOW = {**NVML, "GPUD_FAKE_CUDA_PEER_MBPS": "500"}
result = run_json(BENCH, *LARGE, env=SLOW)
check_run(result, "staged", 20, 2)
check("peer: only 0." in result["fallback_reason"] and "staged should reach 31.5" in result["fallback_reason"],
      f"a slow peer: {result['fallback_reason']}")
check_run(run_json(BENCH, *LARGE, "--route", "peer", env=SLOW), "peer", 20, 1)
check_run(run_json(BENCH, *LARGE, env={**SLOW, "FAKE_NVML_GENERATION": "0"}), "peer", 20, 1)

# As from container to container, where this process may make such. In a chroot "/" is no mount point to make private.
if subprocess.run(["unshare", "--pid", "--mount", "--propagation", "unchanged", "--mount-proc", "--fork", "true"],
                  stderr=subprocess.DEVNULL).returncode == 0:
    result = run_json(BENCH, *SMALL, "--from", "cuda:0", "--to", "cuda:1", "--frames", "50", "--pid-namespaces")
    check_run(result, "peer", 50, 1)
else:
    refused(1, "--pid-namespaces", "--from", "cuda:0", "--to", "cuda:1", "--pid-namespaces")

text = run(BENCH, *SMALL, "--from", "cuda:0", "--to", "cuda:0", "--frames", "50")[0]
for words in ("cuda:0 → cuda:0, route map", "of it marking, us/frame", "raw copies of the same frame within the GPU",
              "half of a round trip"):
    check(words in text, f"the text lacks {words!r}:\n{text}")
refused(2, "8 lines", "--from", "cuda:0", "--width", "512", "--height", "7")
refused(1, "cuda:9", "--from", "cuda:9", *SMALL)
check("no NVIDIA driver" in run(BENCH, "--from", "cuda:0", status=1, env={"LD_LIBRARY_PATH": ""})[1]
      or os.path.exists("/dev/nvidia0"), "without a driver")


# --- elements: CUDA memory at both ends, whatever lies between

def there(element, word=""):
    done = subprocess.run(["gst-inspect-1.0", element], capture_output=True, text=True, timeout=60)
    return done.returncode == 0 and word in done.stdout


with tempfile.TemporaryDirectory() as folder:
    os.environ["GST_REGISTRY"] = folder + "/registry.bin"
    if there("gpudirectsink") and there("videotestsrc") and shutil.which("gst-launch-1.0"):
        caps = "video/x-raw,format=UYVY,width=512,height=96,framerate=60/1"
        for times in starting.measure("cuda:0", "cuda:0", 1, caps):
            check(times["devices"] > 0, f"start: {times}")
    if there("cudaupload") and there("shmsink"):
        sink = "cudadownload ! shmsink socket-path={dir}/shm shm-size={bytes}"
        src = ("shmsrc socket-path={dir}/shm is-live=true ! "
               "video/x-raw,format=UYVY,width=512,height=96,framerate=60/1 ! cudaupload ! {caps}")
        for more in ([], ["--source", "foreign", "--verify", "full"], ["--fps", "60"]):
            result = run_json(BENCH, *SMALL, "--from", "cuda:0", "--to", "cuda:0", "--sink", sink, "--src", src,
                              "--frames", "40", *more)
            check(result["lost"] == 0 and result["torn"] == 0, f"elements {more}: {result['lost']}, {result['torn']}")
            check(all(line["frames"] == 40 for line in result["receivers"]), f"elements {more}: {result['receivers']}")
            latency = result["latency_us" if more[:1] == ["--fps"] else "latency_cpu_us"]
            check(latency["p50"] > 0, f"elements {more}: {latency}")
        # A source that does not deliver CUDA memory is told how it would.
        out, err = run(BENCH, *SMALL, "--from", "cuda:0", "--to", "cuda:0", "--sink", sink, "--src",
                       src.replace("! cudaupload ! {caps}", "! identity"), "--frames", "20", status=1)
        check("{caps}" in err, f"plain memory where CUDA's is wanted: {err!r}")
    if there("gpudirectsink", "memory:CUDAMemory"):
        result = run_json(BENCH, *SMALL, "--elements", "--from", "cuda:0", "--to", "cuda:0", "--receivers", "2",
                          "--frames", "100")
        check_run(result, "map", 100, 0, 2)
        check(result["lent"] == 1, f"ours: {result['lent']} of the frames were lent")
