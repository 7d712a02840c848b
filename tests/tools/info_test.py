# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info: both forms say the same, on this machine and on one without any OpenCL driver."""

import os
import pathlib

from tool import INFO, check, run, run_json

BARE = {"OCL_ICD_VENDORS": "/nonexistent", "OPENCL_LAYERS": "", "VK_DRIVER_FILES": "/nonexistent",
        "VK_ICD_FILENAMES": "/nonexistent"}


def check_device(device):
    check(set(device) == {"name", "description", "pci", "numa_node", "cpus", "distances", "available", "direct_writes",
                          "reason"},
          f"a device has the keys {sorted(device)}")
    check(device["available"] and device["direct_writes"] or device["reason"],
          f"{device['name']} lacks something and does not say why")


def check_network(network):
    """Of this machine, whatever it has; tools-network and tools-softroce look closer."""
    check(set(network) == {"usable", "reason", "pin_max_bytes", "pin_reason", "cards", "exports"},
          f"keys are {sorted(network)}")
    folder = pathlib.Path("/sys/class/infiniband")
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if os.environ["GPUDIRECT_RDMA"] == "no":
        check("built without rdma: configure it with -Drdma=enabled" in network["reason"], f"without: {network}")
        there = set()
    elif not there:
        check("this host has no RDMA device" in network["reason"] and "modprobe" in network["reason"],
              f"without a card: {network['reason']}")
    check({card["name"] for card in network["cards"]} == there, f"cards are {network['cards']}, not {there}")
    check(network["usable"] != bool(network["reason"]), f"usable: {network['usable']}, {network['reason']}")
    for card in network["cards"]:
        check(card["available"] != bool(card["reason"]), f"{card['name']}: {card['reason']}")
        check(card["dmabuf"] or card["no_dmabuf"], f"{card['name']} does not say why it takes no dma-bufs")
        check(card["peermem"] or card["no_peermem"], f"{card['name']} does not say why it has no peermem")
    for each in network["exports"]:
        check(each["dmabuf"] != bool(each["no_dmabuf"]), f"{each['device']}: {each['no_dmabuf']}")


def check_report(report):
    check(set(report) == {"version", "devices", "routes", "links", "captures", "network", "topology",
                          "dgma_layer"},
          f"keys are {sorted(report)}")
    for device in report["devices"]:
        check_device(device)
    usable = [device["name"] for device in report["devices"] if device["available"]]
    check("host" in usable, "the host is not there")
    pairs = [(route["from"], route["to"]) for route in report["routes"]]
    check(sorted(pairs) == sorted((a, b) for a in usable for b in usable), f"routes are given for {pairs}")
    for route in report["routes"]:
        for ways in (route["two_processes"], route["one_process"]):
            check(ways["route"], f"no route from {route['from']} to {route['to']}")
            check(all(len(better["reason"]) > 10 for better in ways["against_better"]),
                  f"a better route from {route['from']} to {route['to']} is refused without a sentence")
    own = next(route for route in report["routes"] if route["from"] == route["to"] == "host")
    check(own["two_processes"] == {"route": "map", "against_better": []}, f"host to host goes by {own}")
    for capture in report["captures"]:
        check(capture["auto"]["device"] in usable and capture["auto"]["reason"], f"auto is {capture['auto']}")
        check(capture["opened"] and capture["card"] or capture["reason"], f"{capture['node']} says nothing")
        check(sorted(path["device"] for path in capture["paths"]) == (sorted(usable) if capture["opened"] else []),
              f"ways from {capture['node']} are {capture['paths']}")
        check(all(path["direct"] != bool(path["reason"]) for path in capture["paths"]),
              f"a way from {capture['node']} lacks its reason: {capture['paths']}")
    check_network(report["network"])
    check(set(report["dgma_layer"]) == {"path", "loaded", "loaded_path", "helps", "hint"}, "keys of the layer")


def check_text(text, report):
    for heading in ("Devices", "Network cards", "Routes between two processes", "Within one process", "Capture",
                    "Software DirectGMA"):
        check(heading in text.splitlines(), f"the heading {heading!r} is missing")
    check(text.startswith(f"gpudirect {report['version']}\n"), "the text does not begin with the version")
    for device in report["devices"]:
        check(f"\n  {device['name']} " in text, f"{device['name']} is missing in the text")
    if not report["network"]["cards"]:
        none = text.split("\nNetwork cards\n")[1].split("\n\n")[0]
        check(" ".join(none.split()).startswith(f"none: {report['network']['reason']}"),
              f"without a card it says {none!r}")
    check(all(len(line) <= 100 or "/" in line for line in text.splitlines()), "a line is longer than 100 columns")


for env in ({}, BARE):
    report = run_json(INFO, env=env)
    check_report(report)
    check_text(run(INFO, env=env)[0], report)

hip = [device for device in report["devices"] if device["name"].startswith("hip")]
check(hip and all(device["available"] or "HIP" in device["reason"] for device in hip), f"HIP devices are {hip}")
opencl = [device for device in report["devices"] if device["name"].startswith("opencl")]
check(opencl and not any(device["available"] for device in opencl), "opencl works without a driver")
check("install" in opencl[0]["reason"], f"without a driver it says {opencl[0]['reason']!r}")
vulkan = [device for device in report["devices"] if device["name"].startswith("vulkan")]
check(len(vulkan) == 1 and not vulkan[0]["available"] and "install" in vulkan[0]["reason"], f"Vulkan is {vulkan}")
check(report["dgma_layer"]["hint"] is None, "the layer is recommended where there is no device for it")

check("Exit status" in run(INFO, "--help")[0], "--help does not explain the exit status")
check(run(INFO, "--version")[0] == f"gpudirect-info {report['version']}\n", "--version")
for args in (["--nonsense"], ["opencl:0"]):
    out, err = run(INFO, *args, status=2)
    check(args[-1].strip("-") in err and not out, f"{args} is refused with {err!r}")
