# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info beside the kernel's soft-RoCE, to be run in the guest: what it says of rxe0 is so, whatever is taken
away from it has its sentence, and the command in the sentence brings it back."""

import ipaddress
import json
import os
import pathlib
import resource
import subprocess

import schemas
from tool import DEADLINE, INFO, check, run, run_json, wait_for

NOBODY = 65534
# Opening OpenCL devices takes seconds by emulation.
os.environ["OCL_ICD_VENDORS"] = os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = "/nonexistent"


def sh(command):
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=DEADLINE)
    check(done.returncode == 0, f"{command} ends with {done.returncode}: {done.stdout}{done.stderr}")


def network():
    return run_json(INFO)["network"]


def open_way_to(program):
    """For other users, who may not enter root's home, say. What is changed in the guest is lost with it."""
    for folder in pathlib.Path(program).resolve().parents:
        os.chmod(folder, folder.stat().st_mode | 0o011)


def as_nobody(memory=resource.RLIM_INFINITY):
    """The output for a user that may register so many bytes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (memory, memory))
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    done = subprocess.run([INFO, "--json"], capture_output=True, text=True, timeout=DEADLINE, preexec_fn=limit)
    check(done.returncode == 0, f"for nobody it ends with {done.returncode}: {done.stderr}")
    return schemas.require("info.json", json.loads(done.stdout), "gpudirect-info")["network"]


def check_card():
    report = network()
    check(report["usable"] and report["reason"] is None, f"not usable: {report['reason']}")
    check([card["name"] for card in report["cards"]] == ["rxe0"], f"cards are {report['cards']}")
    card = report["cards"][0]
    check(card["available"] and card["software"] and card["driver"] == "rdma_rxe" and card["pci"] is None, f"{card}")
    check(not card["dmabuf"] and "the driver of rxe0 takes no dma-bufs" in card["no_dmabuf"], f"dma-buf: {card}")
    check(not card["peermem"] and "rxe0 is software" in card["no_peermem"], f"peermem: {card}")
    (port,) = card["ports"]
    check(port["number"] == 1 and port["active"] and port["state"] == "active" and port["reason"] is None
          and port["link_layer"] == "ethernet" and port["mtu_bytes"] == 4096 and port["rate_mbps"] > 0
          and port["message_max_bytes"] > 0, f"port {port}")
    netdev = port["netdev"]
    shown = json.loads(subprocess.run(["ip", "-json", "address", "show", netdev], capture_output=True, text=True,
                                      check=True, timeout=DEADLINE).stdout)
    wanted = {ipaddress.ip_address(each["local"]) for each in shown[0]["addr_info"]}
    gids = {ipaddress.ip_address(gid["address"]) for gid in port["gids"] if gid["kind"] == "roce-v2"}
    # The kernel makes one of the interface's hardware address, too.
    extra = gids - wanted
    check(wanted <= gids and len(extra) <= 1 and all(address.is_link_local for address in extra),
          f"addresses of {netdev} are {wanted}, those of its GIDs {gids}")
    check(any(address.version == 4 for address in gids), f"no IPv4 address among {gids}")
    check(all(gid["netdev"] == netdev for gid in port["gids"]), f"GIDs are {port['gids']}")
    text = run(INFO)[0]
    check(f"  rxe0  software, driver rdma_rxe\n        port 1: active, Ethernet, {netdev}, " in text,
          f"the text reads\n{text}")
    return netdev


netdev = check_card()

open_way_to(INFO)
report = as_nobody(1 << 20)
check(report["usable"] and report["pin_max_bytes"] == 1 << 20, f"with 1 MiB: {report['pin_max_bytes']}")
check("may register 1024 kB" in report["pin_reason"] and "ulimit -l unlimited" in report["pin_reason"],
      f"with 1 MiB: {report['pin_reason']}")
report = as_nobody()
check(report["pin_max_bytes"] is None and report["pin_reason"] is None, f"without a limit: {report['pin_reason']}")

sh("chmod 600 /dev/infiniband/uverbs0")
report = as_nobody()
check(not report["usable"] and "may not open /dev/infiniband/uverbs0: chmod 666 /dev/infiniband/uverbs0" in
      report["reason"] and not report["cards"][0]["available"], f"without uverbs: {report['reason']}")
check(network()["usable"], "root cannot use it")
sh("chmod 666 /dev/infiniband/uverbs0; chmod 600 /dev/infiniband/rdma_cm")
report = as_nobody()
check(not report["usable"] and "may not open /dev/infiniband/rdma_cm" in report["reason"],
      f"without rdma_cm: {report['reason']}")
sh("chmod 666 /dev/infiniband/rdma_cm")

sh(f"ip link set {netdev} down")
wait_for("the port to go down", lambda: not network()["usable"])
reason = network()["reason"]
check(f"{netdev} is down: ip link set {netdev} up" in reason, f"without the interface: {reason}")
sh(reason.split(f"{netdev} is down: ")[1])
wait_for("the port to come up", lambda: network()["usable"])

sh("modprobe -r rdma_ucm")
reason = network()["reason"]
check("modprobe rdma_ucm" in reason, f"without rdma_ucm: {reason}")
sh(reason.rsplit(": ", 1)[1])
wait_for("rdma_cm", lambda: network()["usable"])

sh("rdma link delete rxe0")
report = network()
check(not report["cards"] and "this host has no RDMA device" in report["reason"], f"without rxe0: {report}")
check("  none: this host has no RDMA device; " in run(INFO)[0], "the text says nothing of it")
sh(report["reason"].rsplit(": ", 1)[1])
wait_for("the port to come up", lambda: network()["usable"])
check([card["name"] for card in network()["cards"]] == ["rxe0"], "the command has made no rxe0")
