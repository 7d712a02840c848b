# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-info --topology, --plot and the JSON beside them, on made-up machines: a laptop, two hives of MI210, what
is wrong with such, and GPUs of AMD and NVIDIA in one machine."""

import os
import pathlib
import shutil
import tempfile
import xml.etree.ElementTree

import machines
from tool import INFO, check, run, run_json

# Nothing that a test's runner adds.
FAKES = os.environ["GPUDIRECT_FAKE_NVML"] + ":" + os.environ["GPUDIRECT_FAKE_CUDA"]
os.environ.pop("LD_LIBRARY_PATH", None)
os.environ["OCL_ICD_VENDORS"] = os.environ["VK_DRIVER_FILES"] = os.environ["VK_ICD_FILENAMES"] = "/nonexistent"
MI210 = os.environ["GPUDIRECT_MI210"]
NODES = "sys/class/kfd/kfd/topology/nodes"


class Machine:
    """What the tool says of it."""

    def __init__(self, description, kfd=None, cuda=0, change=lambda folder: None):
        self.home = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.home.name)
        (self.folder / "machine.xml").write_text(description)
        if kfd:
            machines.make_host(self.folder, kfd)
        change(self.folder)
        self.env = {"HWLOC_XMLFILE": str(self.folder / "machine.xml"), "HWLOC_THISSYSTEM": "0",
                    "GPUDIRECT_HOST": str(self.folder)}
        if cuda:
            self.env |= {"LD_LIBRARY_PATH": FAKES, "GPUD_FAKE_CUDA_DEVICES": str(cuda)}
        self.report = run_json(INFO, env=self.env)
        self.topology = self.report["topology"]
        self.text = run(INFO, "--topology", env=self.env)[0]
        self.flat = " ".join(self.text.split())
        self.rows = [line.split() for line in self.text.splitlines()]

    def link(self, start, end):
        found = [each for each in self.topology["links"] if (each["from"], each["to"]) == (start, end)]
        check(len(found) == 1, f"{start} to {end}: {found}")
        return found[0]

    def part(self, name):
        found = [each for each in self.topology["parts"] if each["name"] == name]
        check(len(found) == 1, f"{name}: {found}")
        return found[0]

    def check_row(self, *row):
        check(list(row) in self.rows, f"the row {row} is missing in\n{self.text}")

    def check_says(self, text):
        check(text in self.flat, f"{text!r} is missing in\n{self.text}")

    def plot(self):
        """All words of the picture."""
        picture = self.folder / "machine.svg"
        run(INFO, "--plot", str(picture), env=self.env)
        root = xml.etree.ElementTree.parse(picture).getroot()
        return " ".join(text.strip() for text in root.itertext() if text.strip())

    def close(self):
        self.home.cleanup()


def check_shape(machine):
    topology = machine.topology
    check(set(topology) == {"reason", "nodes", "parts", "links"}, f"keys are {sorted(topology)}")
    names = [part["name"] for part in topology["parts"]]
    check(len(set(names)) == len(names), f"parts are {names}")
    check({(link["from"], link["to"]) for link in topology["links"]}
          == {(a, b) for a in names for b in names if a != b}, "each part is linked with each")
    gpus = {part["name"] for part in topology["parts"] if part["kind"] == "gpu"}
    for link in topology["links"]:
        pair = {link["from"], link["to"]} <= gpus
        check(link["direct"] != bool(link["reason"]) if pair else not link["direct"] and not link["reason"],
              f"a link: {link}")
    for line in machine.text.splitlines():
        check(line == line.rstrip(), f"blanks at the end of {line!r}")


# --- a laptop

laptop = Machine(machines.make_laptop())
check_shape(laptop)
check([part["name"] for part in laptop.topology["parts"]] == ["wlp1s0"], f"parts are {laptop.topology['parts']}")
laptop.check_row("wlp1s0", "X", "0", "0-7")
laptop.check_says("NUMA node 0: CPUs 0-7, 17.2 GB")
laptop.check_row("host", "map")
check("PIX" not in laptop.text and "GPUs that" not in laptop.text and len(laptop.text.splitlines()) < 16,
      f"a laptop's is\n{laptop.text}")
# Nothing at all.
empty = Machine(machines.describe(machines.node(2, 1 << 30)))
check_shape(empty)
empty.check_says("no GPU, network card or capture card is on a bus here")
empty.close()


# A switch below a switch; and the bridge of a card, which is no switch.
def amd(pci):
    return machines.card(pci, machines.AMD, 0x740f, machines.GPU)


cascade = Machine(machines.describe(machines.node(2, 1 << 30, machines.root(
    "0000", 0, 0x20, machines.bridge("0000:00:01.1", 1, 0x1f, machines.switch(
        "0000:01:00.0", 2, 0x1f, machines.bridge("0000:03:00.0", 4, 4, amd("0000:04:00.0")), amd("0000:05:00.0"),
        machines.switch("0000:06:00.0", 8, 0x1f, amd("0000:09:00.0"), amd("0000:0a:00.0"))))))))
check_shape(cascade)
for pair, name in ((("04", "05"), "PIX"), (("04", "09"), "PXB"), (("0a", "05"), "PXB"), (("09", "0a"), "PIX")):
    link = cascade.link(*(f"0000:{bus}:00.0" for bus in pair))
    check(link["link"] == name, f"{pair} are {link}, not {name}")
cascade.check_says("PXB: behind several PCIe switches")
cascade.close()


# --- two hives of MI210

def with_card(folder):
    machines.add_video(folder, 0, "0000:e6:00.0", "DeckLink 8K Pro")
    machines.add_video(folder, 3, "0000:e6:00.0", "DeckLink 8K Pro")


mi210 = Machine(machines.make_mi210(), MI210, change=with_card)
check_shape(mi210)
check(mi210.topology["reason"] is None, f"not known is {mi210.topology['reason']}")
check(len(mi210.topology["parts"]) == 10 and len(mi210.topology["nodes"]) == 2, "ten parts and two NUMA nodes")
first = mi210.part("0000:63:00.0")
check(first == {"name": "0000:63:00.0", "kind": "gpu", "others": [], "description": "Aldebaran [Instinct MI210]",
                "pci": "0000:63:00.0", "numa_node": 0, "cpus": "0-63",
                "bridges": ["pci0000:61", "0000:61:01.1", "0000:62:00.0"], "hive": "0x71623e7e0f41edaf",
                "memory_bytes": 68702699520, "visible_bytes": 68702699520}, f"a GPU is {first}")
card = mi210.part("/dev/video0")
check(card["kind"] == "capture" and card["pci"] == "0000:e6:00.0" and card["others"] == ["/dev/video3"]
      and card["numa_node"] == 1, f"the capture card is {card}")
check(mi210.part("mlx5_0")["others"] == ["ens3f0"], "the network card has an interface")
link = mi210.link("0000:63:00.0", "0000:43:00.0")
check(link["link"] == "XGMI" and link["hops"] == 1 and link["weight"] == 15
      and abs(link["bandwidth_bytes_per_second"] - 50e9) < 1 and "xGMI would carry it" in link["reason"],
      f"in a hive: {link}")
link = mi210.link("0000:63:00.0", "0000:c3:00.0")
check(link["link"] == "SYS" and link["hops"] is None and link["weight"] == 72
      and "PCIe peer-to-peer would carry it" in link["reason"], f"between hives: {link}")
mi210.check_row("63:00.0", "XGMI", "XGMI", "XGMI", "X", "SYS", "SYS", "SYS", "SYS", "PHB", "SYS", "0", "0-63")
mi210.check_row("video0", "SYS", "SYS", "SYS", "SYS", "NODE", "NODE", "NODE", "PHB", "SYS", "X", "1", "64-127")
mi210.check_says("XGMI: AMD's link between GPUs")
mi210.check_says("03:00.0 → 83:00.0 and 31 more: PCIe peer-to-peer would carry it")


# --- what can be wrong with it

def without_p2p(folder):
    for path in folder.glob(f"{NODES}/*/p2p_links/[1-9]"):
        shutil.rmtree(path)


def small_bar(folder):
    bank = folder / NODES / "7/mem_banks/0/properties"
    bank.write_text(bank.read_text().replace("68702699520", "268435456"))
    hidden = folder / NODES / "7/mem_banks/1"
    hidden.mkdir()
    (hidden / "properties").write_text("heap_type 2\nsize_in_bytes 68434264064\n")
    for node in range(2, 6):
        shutil.rmtree(folder / NODES / f"{node}/p2p_links/2")


def broken(folder):
    (folder / NODES / "7/properties").write_bytes(b"simd_count \xff\xfe")


for change, pair, text in (
        (without_p2p, ("0000:63:00.0", "0000:c3:00.0"), "built without CONFIG_HSA_AMD_P2P"),
        (small_bar, ("0000:63:00.0", "0000:c3:00.0"), "shows only 0.25 GiB of the 63.98 GiB")):
    machine = Machine(machines.make_mi210(), MI210, change=change)
    check_shape(machine)
    check(text in machine.link(*pair)["reason"], f"{pair}: {machine.link(*pair)}")
    machine.check_says(text)
    check("xGMI would carry it" in machine.link("0000:63:00.0", "0000:43:00.0")["reason"], "xGMI is as before")
    if change is small_bar:
        machine.check_says("small BAR: 0.27 of 68.7 GB on the bus")
        check("PCIe peer-to-peer would" in machine.link(*reversed(pair))["reason"], "the other direction is open")
    machine.close()
machine = Machine(machines.make_mi210(), MI210, change=broken)
machine.check_says("Not known: /sys/class/kfd/kfd/topology/nodes/7/properties is ignored: it has no line")
check("0000:c3:00.0" in [part["name"] for part in machine.topology["parts"]], "hwloc knows the GPU all the same")
machine.close()


# --- both vendors

def two_amd(folder):
    """Of the eight, one for each socket's root; without hives."""
    for node in (3, 4, 5, 6, 8, 9):
        shutil.rmtree(folder / NODES / str(node))
    for node, place in ((2, 0x83), (7, 0xc3)):
        path = folder / NODES / f"{node}/properties"
        lines = [line for line in path.read_text().splitlines() if not line.startswith(("location_id", "hive_id"))]
        path.write_text("\n".join([*lines, f"location_id {place << 8}"]) + "\n")
    machines.add_video(folder, 0, "0000:06:00.0", "DeckLink 8K Pro")


mixed = Machine(machines.make_mixed(), MI210, cuda=4, change=two_amd)
check_shape(mixed)
names = [part["name"] for part in mixed.topology["parts"]]
check(names == ["0000:83:00.0", "0000:c3:00.0", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "mlx5_0", "/dev/video0"],
      f"parts are {names}: CUDA's capitals are a place on the bus, too")
link = mixed.link("cuda:0", "cuda:1")
check(link["link"] == "NV18" and link["direct"] and link["bandwidth_bytes_per_second"] > 400e9, f"NVLink: {link}")
check("no driver in common" in mixed.link("cuda:0", "0000:c3:00.0")["reason"], "across vendors")
mixed.check_row("cuda:1", "SYS", "SYS", "NV18", "X", "SYS", "SYS", "PIX", "PIX", "0", "0-31")
mixed.check_row("cuda:0", "staged", "map", "peer", "peer", "peer")

# What the buses and the driver say of a pair stands in the reasons of routes, too.
alone = run_json(INFO, env=mixed.env | {"GPUD_FAKE_CUDA_PEERS": "0"})
ways = next(route for route in alone["routes"] if (route["from"], route["to"]) == ("cuda:0", "cuda:2"))["two_processes"]
reasons = {each["route"]: each["reason"] for each in ways["against_better"]}
check(ways["route"] == "staged" and "there is no NVLink between them" in reasons["peer"], f"without peers: {ways}")

text = " ".join(run(INFO, "--topology", env=mixed.env | {"GPUD_FAKE_CUDA_PEERS": "0"})[0].split())
for line in ("cuda:0 → cuda:1 and 11 more: the driver lets cuda:0 not write to cuda:1",
             "cuda:0 → cuda:1 and 11 more: not peer: the driver lets cuda:0 not write to cuda:1"):
    check(text.count(line) == 1 and text.count("the driver lets") == 2, f"{line!r} once for all pairs in\n{text}")

# --- pictures

with tempfile.TemporaryDirectory() as name:
    _, err = run(INFO, "--plot", f"{name}/machine.pdf", status=2)
    check("FILE.svg or FILE.png" in err, f"another format is refused with {err!r}")
    _, err = run(INFO, "--plot", f"{name}/machine.png", status=1, env={"PATH": name})
    check("apt install graphviz" in " ".join(err.split()), f"without graphviz it says {err!r}")
    check(not os.listdir(name), "and leaves nothing behind")
    if shutil.which("dot"):
        _, err = run(INFO, "--plot", f"{name}/not/there.png", status=1)
        check("dot failed: " in err and "not/there.png" in err, f"a folder that is not there is refused with {err!r}")
        run(INFO, "--plot", f"{name}/machine.PNG")
        check(pathlib.Path(name, "machine.PNG").read_bytes().startswith(b"\x89PNG"), "a PNG")
_, err = run(INFO, "--topology", "--channels", status=2)
check("do not go with --channels" in err, f"--channels is refused with {err!r}")

if shutil.which("dot"):
    words = laptop.plot()
    check("NUMA node 0" in words and "wlp1s0" in words and "Wi-Fi 6 AX200" in words and "map" in words,
          f"the laptop's picture says {words}")
    words = mi210.plot()
    check(all(part["pci"].removeprefix("0000:") in words for part in mi210.topology["parts"])
          and words.count("XGMI, 50 GB/s each with each") == 2 and words.count("PCIe root") == 8
          and "PCIe switch" not in words and "nearest: e3:00.0 (PHB)" in words, f"the picture of MI210s says {words}")
    words = mixed.plot()
    check("NV18, 478 GB/s" in words and "NV2, 53 GB/s" in words and words.count("PCIe switch") == 1
          and "nearest: cuda:0, 1 more (PIX)" in words and words.count("peer") == 12
          and words.count("no device here") == 2, f"the mixed machine's picture says {words}")
else:
    print("no pictures: graphviz is not installed")
for machine in (laptop, mi210, mixed):
    machine.close()
