# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Two hosts, a and b, as network namespaces joined by a cable (veth): 10.79.0.1 and fd79::1, 10.79.0.2 and fd79::2.

    with netns.Cable() as cable:
        server = cable.a.start("iperf3", "-s")
        cable.b.output("iperf3", "-c", cable.a.address)
        cable.cut()

Each namespace lives as long as a process that waits for the end of its input, so that nothing is left behind when the
test is killed. What a host has started is killed at the end of the block. Root makes them; anybody else, and a kernel
without one of the parts, skips the test with the reason."""

import os
import shutil
import subprocess
import time

from verdict import check, skip

DEADLINE = 60


def _output(*words, **named):
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, **named)
    check(done.returncode == 0, f"{' '.join(words)} ends with {done.returncode}: {done.stderr}")
    return done.stdout


class Host:
    """One of the two: runs commands in its namespaces."""

    def __init__(self, name, number):
        self.name = name
        self.address = f"10.79.0.{number}"
        self.address6 = f"fd79::{number}"
        self.interface = f"veth-{name}"
        self.env = {}  # what its commands get beside the test's own environment
        self._started = []
        # Its own network, name and mounts. /sys shows the interfaces of the namespace that mounted it.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--propagation", "private", "sh", "-c",
             f"hostname {name} && mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ready = self._holder.stdout.readline() == "ready\n"
        self.pid = self._holder.pid

    def command(self, *words):
        """The words of a command, to be run in the namespaces."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--wdns=" + os.getcwd(), *words]

    def run(self, *words, **named):
        """As subprocess.run(), with the output as text."""
        named.setdefault("timeout", DEADLINE)
        env = os.environ | self.env | named.pop("env", {})
        return subprocess.run(self.command(*words), capture_output=True, text=True, env=env, **named)

    def output(self, *words, **named):
        """What it writes; it must succeed."""
        done = self.run(*words, **named)
        check(done.returncode == 0,
              f"{' '.join(words)} at {self.name} ends with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, *words, **named):
        """As subprocess.Popen(). exec() keeps the process id: nsenter becomes the command."""
        env = os.environ | self.env | named.pop("env", {})
        process = subprocess.Popen(self.command(*words), env=env, **named)
        self._started.append(process)
        return process

    def end(self):
        for process in reversed(self._started):
            if process.poll() is None:
                process.kill()
            process.wait(DEADLINE)
        self._holder.stdin.close()
        self._holder.wait(DEADLINE)
        why = self._holder.stderr.read()
        self._holder.stdout.close()
        self._holder.stderr.close()
        return why


class Cable:
    """Both hosts, and what is between them."""

    def __init__(self):
        if os.geteuid() != 0:
            skip("only root makes network namespaces")
        for program in ("ip", "nsenter", "unshare"):
            if not shutil.which(program):
                skip(f"{program} is not installed (iproute2, util-linux)")
        self.a, self.b = Host("a", 1), Host("b", 2)
        if not (self.a.ready and self.b.ready):
            skip(f"no network namespaces can be made here: {self.a.end().strip() or self.b.end().strip()}")
        made = subprocess.run(["ip", "link", "add", self.a.interface, "netns", str(self.a.pid), "type", "veth", "peer",
                               "name", self.b.interface, "netns", str(self.b.pid)], capture_output=True, text=True)
        if made.returncode:
            self._end()
            skip(f"this kernel has no veth: {made.stderr.strip()}")
        for host in (self.a, self.b):
            host.output("ip", "address", "add", f"{host.address}/24", "dev", host.interface)
            # A host without IPv6 has IPv4 alone.
            host.has_ipv6 = host.run("ip", "address", "add", f"{host.address6}/64", "dev", host.interface,
                                     "nodad").returncode == 0
            host.output("ip", "link", "set", host.interface, "up")
            host.output("ip", "route", "add", "224.0.0.0/4", "dev", host.interface)
        end = time.monotonic() + DEADLINE
        while not all("LOWER_UP" in host.output("ip", "link", "show", host.interface) for host in (self.a, self.b)):
            check(time.monotonic() < end, "the cable does not come up")
            time.sleep(0.01)

    def netem(self, *words, offload=True):
        """Impairs both directions: netem("delay", "10ms", "loss", "1%"); without words no longer. offload=False:
        packets as on a wire, rather than 64 KiB at a time, for honest loss rates. False: this kernel cannot."""
        for host in (self.a, self.b):
            host.run("tc", "qdisc", "del", "dev", host.interface, "root")
            if not offload:
                host.output("ethtool", "-K", host.interface, "tso", "off", "gso", "off", "gro", "off")
            if words and host.run("tc", "qdisc", "add", "dev", host.interface, "root", "netem", *words).returncode:
                self.netem()
                return False
        return True

    def cut(self):
        """Packets between the addresses vanish, and neither host hears why, as when a switch between them fails: each
        sends them to a card that is not there. Multicast passes."""
        for host, other in ((self.a, self.b), (self.b, self.a)):
            for address in [other.address] + [other.address6] * host.has_ipv6:
                host.output("ip", "neigh", "replace", address, "lladdr", "02:00:00:00:00:01", "nud", "permanent", "dev",
                            host.interface)

    def unplug(self):
        """Both see the link go down."""
        self.a.output("ip", "link", "set", self.a.interface, "down")

    def mend(self):
        """After cut() or unplug()."""
        self.a.output("ip", "link", "set", self.a.interface, "up")
        for host, other in ((self.a, self.b), (self.b, self.a)):
            for address in [other.address] + [other.address6] * host.has_ipv6:
                host.run("ip", "neigh", "del", address, "dev", host.interface)
        if self.a.has_ipv6:  # which an interface that goes down forgets
            self.a.run("ip", "address", "add", f"{self.a.address6}/64", "dev", self.a.interface, "nodad")
            self.b.run("ip", "address", "add", f"{self.b.address6}/64", "dev", self.b.interface, "nodad")

    def _end(self):
        self.a.end()
        self.b.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()
