# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info on a made-up host with network cards and four GPUs: what it says of the cards, as text and as JSON,
and how far each is from each GPU."""

import os
import pathlib
import tempfile

import machines
from tool import check, run, run_json

INFO = os.environ["GPUDIRECT_NETWORK_INFO"]
# Nothing that a test's runner adds.
os.environ["LD_LIBRARY_PATH"] = os.environ["GPUDIRECT_FAKE_CUDA"]
os.environ["GPUD_FAKE_CUDA_DEVICES"] = "4"


def make_topology(folder):
    """GPUs of the driver in host memory where this machine has cards."""
    text = pathlib.Path(os.environ["GPUDIRECT_TOPOLOGY"]).read_text()
    for card, bus in (("0000:02:00.0", 1), ("0000:03:00.0", 2), ("0000:04:00.0", 3), ("0000:82:00.0", 4)):
        text = text.replace(card, f"face:{bus:02x}:00.0")
    (folder / "topology.xml").write_text(text)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    machines.make_host(folder, os.environ["GPUDIRECT_NETWORK"])
    make_topology(folder)
    env = {"GPUDIRECT_HOST": name, "HWLOC_XMLFILE": f"{name}/topology.xml", "HWLOC_THISSYSTEM": "0"}
    report, text = run_json(INFO, env=env), run(INFO, env=env)[0]
    refusing = {**env, "GPUD_FAKE_CUDA_DEVICES": "1", "GPUD_FAKE_CUDA_FAIL": "cuMemGetHandleForAddressRange:1+=801"}
    refused, text_of_refused = run_json(INFO, env=refusing), run(INFO, env=refusing)[0]
    (folder / "sys/class/net/eth0/flags").write_text("0x1002\n")
    (folder / "sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    (folder / "sys/class/infiniband/siw0/ports/1/state").write_text("1: DOWN\n")
    down, text_of_down = run_json(INFO, env=env), run(INFO, env=env)[0]

network = report["network"]
check(set(network) == {"usable", "reason", "pin_max_bytes", "pin_reason", "cards", "exports"},
      f"keys are {sorted(network)}")
check(network["exports"] == [{"device": f"cuda:{i}", "dmabuf": True, "no_dmabuf": None} for i in range(4)],
      f"memory that can be exported: {network['exports']}")
check(network["usable"] and network["reason"] is None, f"the host is not usable: {network['reason']}")
mlx5, rxe, siw = network["cards"]

distances = {card["name"]: {each["to"]: each["distance"] for each in card["distances"]} for card in network["cards"]}
check(distances["mlx5_0"] == {"cuda:0": "pix", "cuda:1": "pix", "cuda:2": "phb", "cuda:3": "sys"},
      f"mlx5_0 is {distances['mlx5_0']} from GPUs")
check(set(distances["rxe0"].values()) == {"unknown"}, f"rxe0 is {distances['rxe0']} from GPUs")
port, other = mlx5.pop("ports")
mlx5.pop("distances")
no_peermem = mlx5.pop("no_peermem")
nearest = ("cuda:0 is behind the same PCIe switch as 0000:03:00.1 (PIX); "
           "cuda:2 is below the same PCIe host bridge as it (PHB)")
check(mlx5.pop("auto") == {"device": "cuda:0", "reason": nearest}, f"the nearest to mlx5_0 is not {nearest}")
check(mlx5 == {"name": "mlx5_0", "model": "MT4129", "driver": "mlx5_core", "firmware": "28.39.1002",
               "pci": "0000:03:00.1", "numa_node": 0, "software": False, "available": True, "reason": None,
               "dmabuf": True, "no_dmabuf": None, "peermem": False}, f"mlx5_0 is {mlx5}")
check(rxe["auto"] == {"device": None, "reason": None}, f"the nearest to what is on no bus is {rxe['auto']}")
check("nvidia-peermem" in no_peermem, f"no peermem: {no_peermem}")
gids = port.pop("gids")
check(port == {"number": 1, "active": True, "state": "active", "reason": None, "link_layer": "ethernet",
               "rate_mbps": 100000, "mtu_bytes": 4096, "message_max_bytes": 1 << 30, "netdev": "eth0"},
      f"port 1 is {port}")
check(gids[2] == {"index": 3, "kind": "roce-v2", "gid": "::ffff:10.0.0.2", "address": "10.0.0.2", "netdev": "eth0"}
      and [gid["index"] for gid in gids] == [0, 1, 3, 10] and gids[0]["kind"] == "roce-v1", f"GIDs are {gids}")
check(other["link_layer"] == "infiniband" and other["gids"][0]["kind"] == "infiniband"
      and other["gids"][0]["address"] is None and "opensm" in other["reason"], f"port 2 is {other}")
check(rxe["software"] and not rxe["dmabuf"] and "takes no dma-bufs" in rxe["no_dmabuf"], f"rxe0 is {rxe}")
check(not siw["available"] and "not for InfiniBand or RoCE" in siw["reason"], f"siw0 is {siw}")

section = text.split("\nNetwork cards\n")[1].split("\nRoutes between")[0]
rows = [line.split() for line in section.splitlines()]
for row in (["cuda:0", "cuda:1", "cuda:2", "cuda:3"], ["mlx5_0", "PIX", "PIX", "PHB", "SYS"],
            ["rxe0", "?", "?", "?", "?"]):
    check(row in rows, f"the row {row} is missing in\n{section}")
for line in ("  mlx5_0  MT4129, driver mlx5_core, firmware 28.39.1002, at 0000:03:00.1, NUMA node 0",
             "          port 1: active, Ethernet, eth0, 100 Gbit/s, MTU 4096, messages of up to 1074 MB",
             "            GID 3: RoCE v2, 10.0.0.2, eth0", "            GID 10: RoCE v2, fd77::1, eth0.7",
             "          port 2: init, InfiniBand, ib1, 2.5 Gbit/s, MTU 4096, messages of up to 1074 MB",
             "          GPU memory by dma-buf: yes", "  rxe0    software, driver rdma_rxe",
             "  siw0    nothing is known of it",
             "            v0 is down: ip link set v0 up", "  PIX: behind one PCIe bridge or switch",
             "  ?: the position of one of them is unknown"):
    check(line in section.splitlines(), f"{line!r} is missing in\n{section}")
check("not available: siw0 is not for InfiniBand" in section and "NODE:" not in section, f"the section is\n{section}")

check(f"device=auto: {nearest}" in " ".join(section.split()), f"the section is\n{section}")
for i in range(4):
    check(f"  memory of cuda:{i} as a dma-buf, for a card: yes" in section.splitlines(), f"the section is\n{section}")
export, = refused["network"]["exports"]
check(not export["dmabuf"] and "no dma-buf for" in export["no_dmabuf"]
      and "memory of cuda:0 as a dma-buf, for a card: no, no dma-buf for" in " ".join(text_of_refused.split()),
      f"without dma-bufs: {export}\n{text_of_refused}")

network = down["network"]
lack = "port 1 of mlx5_0 is not active: eth0 is down: ip link set eth0 up"
check(not network["usable"] and network["reason"] == lack, f"without an active port: {network['reason']}")
check(f"  none can be used now: {lack}\n" in text_of_down,
      f"without an active port:\n{text_of_down}")
