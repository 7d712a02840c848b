# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Made-up machines: what hwloc is told of them, as XML, and what the kernel shows of them below /sys."""

import itertools
import os
import pathlib
import xml.sax.saxutils

AMD, NVIDIA, MELLANOX, INTEL, BLACKMAGIC = 0x1002, 0x10de, 0x15b3, 0x8086, 0xbdbd
GPU, VGA, NETWORK, ETHERNET, MULTIMEDIA = 0x0380, 0x0300, 0x0207, 0x0200, 0x0480
RDMA, NETDEV = 3, 2


def quote(text):
    return xml.sax.saxutils.quoteattr(text)


def card(pci, vendor, device, kind, name="", names=()):
    """names: of the system, with their kinds as hwloc numbers them."""
    return {"pci": pci, "type": f"{kind:04x} [{vendor:04x}:{device:04x}] [0000:0000] 00", "name": name, "names": names}


def bridge(pci, first, last, *below):
    """A port, or the upper end of a switch; below it are buses first to last."""
    return {"pci": pci, "buses": f"{pci.split(':')[0]}:[{first:02x}-{last:02x}]", "below": below}


def switch(pci, first, last, *cards):
    """With a port for each card."""
    ports = [bridge(f"0000:{first:02x}:{n:02x}.0", first + 1 + n, first + 1 + n, each) for n, each in enumerate(cards)]
    return bridge(pci, first, last, *ports)


def root(domain, first, last, *below):
    return {"buses": f"{domain}:[{first:02x}-{last:02x}]", "below": below}


def node(cpus, memory, *roots):
    return {"cpus": cpus, "memory": memory, "roots": roots}


class Xml:
    def __init__(self):
        self.lines, self.numbers = [], itertools.count(1)

    def open(self, kind, **attributes):
        text = " ".join(f"{key}={quote(str(value))}" for key, value in attributes.items())
        self.lines.append(f'<object type="{kind}" gp_index="{next(self.numbers)}" {text}>')

    def close(self):
        self.lines.append("</object>")

    def add_card(self, each):
        self.open("PCIDev", pci_busid=each["pci"], pci_type=each["type"], pci_link_speed="0.000000")
        if each["name"]:
            self.lines.append(f'<info name="PCIDevice" value={quote(each["name"])}/>')
        for name, kind in each["names"]:
            self.open("OSDev", name=name, osdev_type=kind)
            self.close()
        self.close()

    def add_bridge(self, each, depth):
        if "below" not in each:
            self.add_card(each)
            return
        if depth == 0:
            self.open("Bridge", bridge_type="0-1", depth=0, bridge_pci=each["buses"])
        else:
            self.open("Bridge", bridge_type="1-1", depth=depth, bridge_pci=each["buses"], pci_busid=each["pci"],
                      pci_type="0604 [10b5:8747] [0000:0000] 00", pci_link_speed="0.000000")
        for below in each["below"]:
            self.add_bridge(below, depth + 1)
        self.close()


def describe(*nodes):
    """The XML of a machine of these NUMA nodes."""
    first, every, xml_ = 0, 0, Xml()
    sets = []
    for each in nodes:
        sets.append(((1 << each["cpus"]) - 1) << first)
        every |= sets[-1]
        first += each["cpus"]

    def mask(value):
        digits = f"{value:x}"
        digits = digits.zfill(-(-len(digits) // 8) * 8)
        return ",".join("0x" + digits[at:at + 8] for at in range(0, len(digits), 8))

    def places(cpus, memory):
        return {"cpuset": mask(cpus), "complete_cpuset": mask(cpus), "nodeset": mask(memory),
                "complete_nodeset": mask(memory)}

    all_nodes = (1 << len(nodes)) - 1
    xml_.open("Machine", os_index=0, allowed_cpuset=mask(every), allowed_nodeset=mask(all_nodes),
              **places(every, all_nodes))
    cpu = 0
    for number, each in enumerate(nodes):
        xml_.open("Package", os_index=number, **places(sets[number], 1 << number))
        xml_.open("NUMANode", os_index=number, local_memory=each["memory"], **places(sets[number], 1 << number))
        xml_.close()
        for _ in range(each["cpus"]):
            xml_.open("PU", os_index=cpu, **places(1 << cpu, 1 << number))
            xml_.close()
            cpu += 1
        for below in each["roots"]:
            xml_.add_bridge(below, 0)
        xml_.close()
    xml_.close()
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
                      '<topology version="2.0">', *xml_.lines, "</topology>"]) + "\n"


def make_host(folder, description):
    """As tests/support/host.c does."""
    for line in pathlib.Path(description).read_text().splitlines():
        if not line.startswith(("sys/", "dev/", "boot/")):
            continue
        path, arrow, target = line.partition(" -> ")
        if not arrow:
            path, _, text = (line + " ").partition(": ")
        path = folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            path.symlink_to(target)
        else:
            path.write_text(text.strip().replace(" | ", "\n") + "\n")


def add_video(folder, number, pci, name):
    """/dev/video<number>, of the card there."""
    device = folder / f"sys/devices/pci0000:00/{pci}"
    device.mkdir(parents=True, exist_ok=True)
    video = folder / f"sys/class/video4linux/video{number}"
    video.mkdir(parents=True)
    (video / "name").write_text(name + "\n")
    (video / "device").symlink_to(os.path.relpath(device, video))


GIB = 1 << 30


def mi210(first, *others):
    """A socket of a machine with eight MI210 in two hives: its four GPUs on a root each, and what is beside the
    first."""
    def gpu(bus):
        # The card brings a bridge of its own, as AMD's do.
        return bridge(f"0000:{bus - 2:02x}:01.1", bus - 1, bus,
                      bridge(f"0000:{bus - 1:02x}:00.0", bus, bus,
                             card(f"0000:{bus:02x}:00.0", AMD, 0x740f, GPU, "Aldebaran [Instinct MI210]")))
    return [root("0000", bus - 2, bus + 8, gpu(bus), *(others if bus == first[0] else ())) for bus in first]


def make_mi210():
    nic = bridge("0000:61:03.1", 0x65, 0x65, card("0000:65:00.0", MELLANOX, 0x101d, NETWORK, "ConnectX-6 Dx",
                                                  (("mlx5_0", RDMA), ("ens3f0", NETDEV))))
    sdi = bridge("0000:e1:03.1", 0xe6, 0xe6, card("0000:e6:00.0", BLACKMAGIC, 0xa138, MULTIMEDIA, "DeckLink 8K Pro"))
    return describe(node(64, 512 * GIB, *mi210([0x63, 0x43, 0x03, 0x26], nic)),
                    node(64, 512 * GIB, *mi210([0xe3, 0xc3, 0x83, 0xa3], sdi)))


def make_laptop():
    return describe(node(8, 16 * GIB, root(
        "0000", 0, 4,
        card("0000:00:02.0", INTEL, 0x9a49, VGA, "TigerLake-LP GT2 [Iris Xe Graphics]"),
        bridge("0000:00:1d.0", 1, 1, card("0000:01:00.0", INTEL, 0x2723, 0x0280, "Wi-Fi 6 AX200",
                                          (("wlp1s0", NETDEV),))))))


def make_mixed(gpus=("face:01:00.0", "face:02:00.0", "face:03:00.0", "face:04:00.0")):
    """Four NVIDIA GPUs (at these places: where the driver of tests/fakes has them), two behind a switch with a network
    card and a capture card, and two of AMD's."""
    def nvidia(pci):
        return card(pci, NVIDIA, 0x2230, VGA, "RTX A6000")

    first = switch("0000:01:00.0", 2, 9, nvidia(gpus[0]), nvidia(gpus[1]),
                   card("0000:05:00.0", MELLANOX, 0x1021, NETWORK, "ConnectX-7", (("mlx5_0", RDMA), ("eth0", NETDEV))),
                   card("0000:06:00.0", BLACKMAGIC, 0xa138, MULTIMEDIA, "DeckLink 8K Pro"))
    return describe(
        node(32, 256 * GIB, root("0000", 0, 0x20, bridge("0000:00:01.1", 1, 9, first))),
        node(32, 256 * GIB,
             root("0000", 0x80, 0x9f, bridge("0000:80:01.1", 0x81, 0x81, nvidia(gpus[2])),
                  bridge("0000:80:03.1", 0x83, 0x83, card("0000:83:00.0", AMD, 0x740f, GPU, "Instinct MI210"))),
             root("0000", 0xc0, 0xdf, bridge("0000:c0:01.1", 0xc1, 0xc1, nvidia(gpus[3])),
                  bridge("0000:c0:03.1", 0xc3, 0xc3, card("0000:c3:00.0", AMD, 0x740f, GPU, "Instinct MI210")))))
