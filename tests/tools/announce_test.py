# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Channels that are found by name: what one host announces another one lists, with and without a daemon, after the
daemon was killed, of two senders of one name, and among a thousand hostile announcements."""

import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

import schemas
from tool import DEADLINE, INFO, check, skip, wait_for

import mdns  # of tests/support, as netns
import netns

ANNOUNCER = os.environ["GPUDIRECT_ANNOUNCER"]
BUILD = pathlib.Path(os.environ["GPUDIRECT_BUILD"])
CAPS = "video/x-raw,format=UYVY,width=320,height=180,framerate=25/1"
SOUND = "audio/x-raw,format=S16LE,rate=48000,channels=2,layout=interleaved,samples-per-block=480"

# A call of Avahi that waits for a daemon which does not answer ends by itself after 25 s: what has not answered by then
# waits for it.
PATIENCE = 15


class Announcer:
    """A process that announces, and searches; see announcer.c."""

    def __init__(self, host, **env):
        self.process = host.start(ANNOUNCER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, *words, patience=DEADLINE):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        check(select.select([self.process.stdout], [], [], patience)[0], f"no answer to {words} within {patience} s")
        return self.process.stdout.readline().strip()

    def found(self):
        """What a search finds, by its addresses without the host's, and its counts."""
        *addresses, omitted, invalid = self.ask("search", 20000).split(" ")
        check(invalid.startswith("invalid="), f"{addresses} {omitted} {invalid}")
        return addresses, int(omitted.split("=")[1]), int(invalid.split("=")[1])

    def waits_for(self, what, *addresses):
        """Until exactly these are found."""
        wait_for(f"{what}: {addresses}, there is {self.found()}", lambda: sorted(self.found()[0]) == sorted(addresses))

    def waits_for_more(self, what, *addresses):
        """Until these are among them: what a daemon that is killed has announced is known for up to 75 minutes."""
        wait_for(f"{what}: {addresses}, there is {self.found()}", lambda: set(addresses) <= set(self.found()[0]))

    def end(self):
        self.process.stdin.close()
        self.process.wait(DEADLINE)
        check(self.process.returncode == 0, f"the announcer ends with {self.process.returncode}")
        self.process.stdout.close()


def listed(host, *args, status=0):
    """gpudirect-info's answers: as an object, and as text."""
    done = host.run(INFO, "--channels", "--network", "--json", *args)
    check(done.returncode == status, f"gpudirect-info ends with {done.returncode}: {done.stderr}")
    value = schemas.require("channels.json", json.loads(done.stdout), "gpudirect-info --channels --network")
    return value, re.sub(r"\s+", " ", host.output(INFO, "--channels", "--network", *args))


def channel(host, address):
    return next((one for one in listed(host)[0]["channels"] if one["address"] == address), None)


def check_found(cable):
    """From the first announcement to the last; nothing is announced on loopback, one address is announced on its
    interface, and each stream has its own media."""
    here, there = Announcer(cable.a), Announcer(cable.b)
    main, audio = "tcp://studio-a.local:9000/cam1", "tcp://studio-a.local:9000/cam1/audio"
    check(here.ask("begin", f"tcp://{cable.a.address}:9000/cam1", "encrypted") == "begun", "it is announced")
    check(here.ask("begin", "tcp://127.0.0.1:9000/cam2") == "not announced", "loopback is announced")
    check(here.ask("begin", "tcp://[::1]:9000/cam2") == "not announced", "loopback is announced")
    check(here.ask("begin", "tcp://10.99.0.1:9000/cam2") == "not announced", "an address of no interface is announced")
    there.waits_for("one", main)
    check(channel(cable.b, main)["format"] is None, "a format that there is not")
    here.ask("begin", f"tcp://{cable.a.address}:9000/cam1/audio", "encrypted")
    here.ask("begin", "tcp://0.0.0.0:7175/wild")
    there.waits_for("two and a stream", main, audio, "tcp://studio-a.local:7175/wild")
    here.ask("media", f"tcp://{cable.a.address}:9000/cam1", CAPS)
    here.ask("media", f"tcp://{cable.a.address}:9000/cam1/audio", SOUND)
    wait_for("the formats", lambda: all(channel(cable.b, one)["format"] for one in (main, audio)))
    one = channel(cable.b, main)
    check(one["announced"] == {"host": "studio-a.local", "address": cable.a.address, "own_host": False,
                               "encrypted": True, "version": one["announced"]["version"]} and
          one["announced"]["version"] == listed(cable.b)[0]["version"] and
          one["format"]["name"] == "UYVY" and one["format"]["width"] == 320 and not one["answered"], f"{one}")
    check(channel(cable.b, audio)["format"]["name"] == "S16LE", "the sound's format")
    check(channel(cable.a, main)["announced"]["own_host"], "the host's own")
    text = listed(cable.b)[1]
    check("Channels that hosts of the network announce" in text and
          f"{main} UYVY 320x180; on studio-a.local ({cable.a.address}), encrypted" in text and
          f"wild on studio-a.local ({cable.a.address}), not encrypted" in text, text)
    check(not channel(cable.b, "tcp://studio-a.local:9000/cam2"), "what is on loopback")
    # A place without a port.
    for host in ("studio-a", "studio-a.local", "STUDIO-A", cable.a.address):
        check(there.ask("port", f"tcp://{host}/cam1", 20000).split()[0] == "9000", f"the port of {host}")
    check(there.ask("port", "tcp://studio-a/cam1/audio", 20000).split()[0] == "9000", "of a stream")
    check(there.ask("port", "tcp://studio-a", 20000).split()[0] == "7175", "of any channel: the usual one is preferred")
    for other in ("rdma://studio-a/cam1", "tcp://studio-b/cam1", "tcp://studio-a/cam", "tcp://studio-a/cam1/anc",
                  "tcp://studio/cam1"):
        check(there.ask("port", other, 2000).split()[0] == "0", f"{other} is found")
    addresses = [f"{cable.a.address} 9000"] + [f"{cable.a.address6} 9000"] * cable.a.has_ipv6
    check(sorted(there.ask("lookup", "tcp://studio-a/cam1").split(", ")) == addresses, "the addresses")
    check(f"{cable.a.address} 9100" in there.ask("lookup", "tcp://studio-a.local:9100/cam1"), "a port that was given")
    # The end.
    here.ask("end", f"tcp://{cable.a.address}:9000/cam1/audio")
    there.waits_for("without the stream", main, "tcp://studio-a.local:7175/wild")
    here.end()
    there.waits_for("the end")
    there.end()


def check_sender(cable):
    """A sender of the public API on an address of a network card, and one that is not to be announced."""
    if os.environ["GPUDIRECT_RDMA"] != "yes":
        return
    with tempfile.TemporaryDirectory() as runtime:
        here, there = Announcer(cable.a, XDG_RUNTIME_DIR=runtime), Announcer(cable.b)
        here.ask("send", f"rdma://{cable.a.address}:7174/quiet", "quiet")
        here.ask("stop")
        here.ask("send", f"rdma://{cable.a.address}:7174/cam1")
        there.waits_for("the sender", "rdma://studio-a.local:7174/cam1")
        here.ask("configure", CAPS)
        wait_for("its format", lambda: channel(cable.b, "rdma://studio-a.local:7174/cam1")["format"])
        one = channel(cable.b, "rdma://studio-a.local:7174/cam1")
        check(not one["announced"]["encrypted"] and one["format"]["width"] == 320, f"{one}")
        here.ask("stop")
        there.waits_for("its end")
        here.end()
        there.end()


def check_children(cable):
    """A child does not keep what its parent announces."""
    here, there = Announcer(cable.a), Announcer(cable.b)
    here.ask("begin", f"tcp://{cable.a.address}:9000/cam1")
    there.waits_for("the parent's", "tcp://studio-a.local:9000/cam1")
    child = int(here.ask("fork"))
    here.process.kill()
    here.process.wait()
    there.waits_for("the parent's end")
    os.kill(child, signal.SIGKILL)
    there.end()


def check_names(cable):
    """Two senders of one name on one host, and one of it on another: three services, and one name."""
    senders = [Announcer(cable.a), Announcer(cable.a), Announcer(cable.b)]
    there = Announcer(cable.b)
    senders[0].ask("begin", "tcp://0.0.0.0:9000/cam1")
    there.waits_for("the first", "tcp://studio-a.local:9000/cam1")
    senders[1].ask("begin", "tcp://0.0.0.0:9001/cam1")
    senders[2].ask("begin", "tcp://0.0.0.0:9000/cam1")
    there.waits_for("all three", "tcp://studio-a.local:9000/cam1", "tcp://studio-a.local:9001/cam1",
                    "tcp://studio-b.local:9000/cam1")
    senders[0].end()
    there.waits_for("two", "tcp://studio-a.local:9001/cam1", "tcp://studio-b.local:9000/cam1")
    check(there.ask("port", "tcp://studio-a/cam1", 20000).split()[0] == "9001", "the one that is left")
    senders[1].end()
    senders[2].end()
    there.waits_for("the end")
    there.end()


def check_daemon(cable, daemon):
    """Killed, absent, back, and one that does not answer."""
    here, there = Announcer(cable.a), Announcer(cable.b)
    here.ask("begin", "tcp://0.0.0.0:9000/lost")
    there.waits_for("before", "tcp://studio-a.local:9000/lost")
    daemon.kill()
    wait_for("the daemon's end", lambda: "does not run" in here.ask("search", 2000))
    value, text = listed(cable.a)
    check(any("does not run" in (folder["note"] or "") for folder in value["folders"]) and
          "no channels of other hosts were asked for: Avahi's daemon, or the D-Bus" in text, f"{value} {text}")
    check(here.ask("port", "tcp://studio-b/cam1", 20000).split()[0] == "0", "a port without a daemon")
    here.ask("begin", "tcp://0.0.0.0:9000/cam2")
    here.ask("end", "tcp://0.0.0.0:9000/lost")  # of which the other host does not hear
    daemon.start()
    there.waits_for_more("afterwards", "tcp://studio-a.local:9000/cam2")
    daemon.daemon.send_signal(signal.SIGSTOP)
    for words in (("begin", "tcp://0.0.0.0:9000/cam3"), ("media", "tcp://0.0.0.0:9000/cam2", CAPS),
                  ("begin", "tcp://0.0.0.0:9000/cam4"), ("end", "tcp://0.0.0.0:9000/cam4")):
        here.ask(*words, patience=PATIENCE)
    another = Announcer(cable.a)
    said = another.ask("search", 1000, patience=PATIENCE)
    check("did not answer in time" in said, f"of a daemon that is stopped: {said}")
    check(another.ask("begin", "tcp://0.0.0.0:9000/cam5", patience=PATIENCE) == "begun", "meanwhile")
    daemon.daemon.send_signal(signal.SIGCONT)
    there.waits_for_more("when it goes on", *(f"tcp://studio-a.local:9000/cam{i}" for i in (2, 3, 5)))
    another.end()
    here.end()
    wait_for("the end", lambda: not {f"tcp://studio-a.local:9000/cam{i}" for i in (2, 3, 5)} & set(there.found()[0]))
    there.end()
    nowhere = Announcer(cable.a, DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nowhere/bus")
    check("does not run" in nowhere.ask("search", 2000), "without D-Bus")
    check(nowhere.ask("begin", "tcp://0.0.0.0:9000/cam1") == "begun", "without D-Bus")
    nowhere.end()


# --- hostile announcements ------------------------------------------------------------------------

PTR, TXT, A, SRV = 12, 16, 1, 33


def dns_name(*labels):
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


TYPE = (b"_gpudirect", b"_tcp", b"local")


def record(name, kind, data, flush=0x8000):
    return name + struct.pack("!HHIH", kind, 1 | (flush if kind != PTR else 0), 120, len(data)) + data


def service(instance, port, host, txt):
    """The records of one; port, host or txt None: it lacks them."""
    own = dns_name(instance, *TYPE)
    records = [record(dns_name(*TYPE), PTR, own)]
    if host is not None:
        records.append(record(own, SRV, struct.pack("!HHH", 0, 0, port) + dns_name(host, b"local")))
        records.append(record(dns_name(host, b"local"), A, socket.inet_aton("10.79.0.77")))
    if txt is not None:
        records.append(record(own, TXT, b"".join(bytes([len(one)]) + one for one in txt) or b"\0"))
    return records


def hostile():
    """A thousand: half of them make no sense, each in its way; the others are valid, and too many for one host."""
    good = [b"txtvers=1", b"scheme=tcp", b"encrypted=0"]
    ways = [
        (9000, b"evil", []),
        (9000, b"evil", [b"\xff\xfe\x00\x1b[2J", b"=", b"====", b"scheme"]),
        (9000, b"evil", [b"scheme=../../etc", b"name=cam1"]),
        (9000, b"evil", [b"scheme=tcp\x1b", b"name=cam1"]),
        (9000, b"evil", good + [b"name=\x1b]0;evil\x07"]),
        (9000, b"evil", good + [b"name=" + b"x" * 200]),
        (9000, b"evil", good + [b"name=cam1/audio"]),
        (9000, b"evil", good + [b"name=cam1", b"streams=cam2"]),
        (9000, b"evil", good + [b"name=cam1", b"streams=cam1,,,,"]),
        (9000, b"evil", good + [b"name=cam1", b"streams=" + b"cam1/" + b"y" * 200]),
        (0, b"evil", good + [b"name=cam1"]),
        (9000, b"e;vil\n\xc3", good + [b"name=cam1"]),
        (9000, b"z" * 63, good + [b"name=cam1"]),
    ]
    for i in range(500):
        port, host, txt = ways[i % len(ways)]
        yield service(b"bad %d" % i, port, host, txt)
    for i in range(500):
        yield service(b"many %d" % i, 9000, b"many",
                      good + [b"name=many%d" % i, b"media=video/x-raw, width=(int)99999999999, format=(string)\x1b\xff",
                              b"version=" + b"9" * 240 if i % 2 else b"version=\x07", b"filler=" + b"f" * 240])


FLOOD = """
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
out.bind(("", 5353))
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
for line in sys.stdin:
    out.sendto(bytes.fromhex(line), ("224.0.0.251", 5353))
    time.sleep(0.004)  # else most are lost at the daemon's socket
"""


def check_hostile(cable):
    """The channels of honest hosts are found among a thousand announcements, no text of these gets out as it is, and
    the list is bounded."""
    here, there = Announcer(cable.a), Announcer(cable.b)
    packets = []
    for records in hostile():
        packets.append(struct.pack("!HHHHHH", 0, 0x8400, 0, len(records), 0, 0) + b"".join(records))
    check(len(packets) == 1000, f"{len(packets)}")
    here.ask("begin", "tcp://0.0.0.0:9000/early")
    there.waits_for_more("before", "tcp://studio-a.local:9000/early")

    def flood():
        flooder = cable.a.start(sys.executable, "-c", FLOOD, cable.a.address, stdin=subprocess.PIPE, text=True)
        flooder.communicate("".join(packet.hex() + "\n" for packet in packets), timeout=DEADLINE)
        check(flooder.returncode == 0, "the flood")
    flood()

    def found():
        addresses, omitted, invalid = there.found()
        return (addresses, omitted, invalid) if omitted > 0 and invalid >= 400 else flood()
    addresses, omitted, invalid = wait_for("the flood's services", found)
    print(f"{len(addresses)} are listed, {omitted} omitted, {invalid} invalid")
    here.ask("begin", "tcp://0.0.0.0:9000/late")
    wait_for("one among a thousand", lambda: "tcp://studio-a.local:9000/late" in there.found()[0])
    check("tcp://studio-a.local:9000/early" in there.found()[0], "the one before")
    many = [address for address in there.found()[0] if "many.local" in address]
    check(0 < len(many) <= 256, f"{len(many)} of one host")
    check(there.ask("port", "tcp://studio-a/late", 20000).split()[0] == "9000", "its port")
    value, text = listed(cable.b)
    check(len(value["channels"]) <= 256, "the bound")
    check(all(" " <= c for c in text) and "evil" not in text, f"a hostile text: {text!r}")
    for one in value["channels"]:
        check(re.fullmatch(r"tcp://[a-zA-Z0-9._-]+:[0-9]+/[a-zA-Z0-9._/-]+", one["address"]), f"{one}")
        check("many.local" not in one["address"] or one["format"] is None, f"{one}")
    here.end()
    there.end()


# --- other lists ----------------------------------------------------------------------------------

def check_python(cable):
    """channels(network=True), where the package is built and this is its interpreter."""
    module = BUILD / "plugins" / "python"
    if not list(module.glob("gpudirect/_gpudirect*")):
        print("the Python package: not built")
        return
    here = Announcer(cable.a)
    here.ask("begin", "tcp://0.0.0.0:9000/cam1", "encrypted")
    here.ask("media", "tcp://0.0.0.0:9000/cam1", CAPS)
    program = ("import gpudirect, json\n"
               "print(json.dumps([one for one in gpudirect.channels(timeout=20, network=True) if one['announced']]))")
    env = {"PYTHONPATH": str(module)}

    def found():
        return json.loads(cable.b.output(sys.executable, "-c", program, env=env))
    one = wait_for("the channel and its media", lambda: next((one for one in found() if one["media"]), None))
    check(one["address"] == "tcp://studio-a.local:9000/cam1" and one["host"] == "studio-a.local" and
          one["host_address"] == cable.a.address and one["encrypted"] and "UYVY" in one["media"] and
          not one["answered"], f"{one}")
    done = cable.b.run(sys.executable, "-W", "error", "-c", program,
                       env=env | {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere/bus"})
    check("RuntimeWarning: no channels of other hosts were asked for" in done.stderr, f"no warning: {done.stderr}")
    here.end()


def check_device_monitor(cable):
    """An application of GStreamer gets a device for what another host announces, until it ends."""
    if not shutil.which("gst-device-monitor-1.0"):
        print("device monitors: gst-device-monitor-1.0 is not installed")
        return
    here = Announcer(cable.a)
    here.ask("begin", "tcp://0.0.0.0:9000/cam1")
    here.ask("media", "tcp://0.0.0.0:9000/cam1", CAPS)
    monitor = cable.b.start("gst-device-monitor-1.0", "-f", "Video/Source", stdout=subprocess.PIPE)

    def reads(*wanted):
        said = ""
        while not all(one in said for one in wanted):
            check(select.select([monitor.stdout], [], [], DEADLINE)[0], f"no {wanted} in {DEADLINE} s, but {said}")
            more = os.read(monitor.stdout.fileno(), 65536)
            check(more, f"it ends: {said}")
            said += more.decode()
    reads("host = studio-a.local", "address = tcp://studio-a.local:9000/cam1", "width=320")
    here.end()
    reads("Device removed")
    monitor.kill()
    monitor.wait()
    monitor.stdout.close()


def check_monitor(cable):
    """The monitor's page shows what is announced, and forgets what is no longer."""
    program = os.environ.get("GPUDIRECT_MONITOR")
    if not program:
        return
    here = Announcer(cable.a)
    here.ask("begin", "tcp://0.0.0.0:9000/cam1")
    here.ask("media", "tcp://0.0.0.0:9000/cam1", CAPS)
    monitor = cable.b.start(program, "--network", "--listen=127.0.0.1:0", stdout=subprocess.PIPE, text=True)
    url = monitor.stdout.readline().split()[1]

    def state():
        text = cable.b.output(sys.executable, "-c", "import sys, urllib.request as request\n"
                              "print(request.urlopen(sys.argv[1], timeout=60).read().decode())", f"{url}api/state")
        value = schemas.require("monitor.json", json.loads(text), "/api/state")
        return {one["address"]: one for one in value["channels"]}
    address = "tcp://studio-a.local:9000/cam1"
    wait_for("the channel", lambda: address in state() and state()[address]["format"])
    one = state()[address]
    check(one["state"] == "Announced" and one["severity"] == "off" and one["brief"].startswith("UYVY 320") and
          one["announced"]["host"] == "studio-a.local", f"{one}")
    here.end()
    wait_for("its end", lambda: address not in state())
    monitor.terminate()
    check(monitor.wait(DEADLINE) == 0, "the monitor's status")
    monitor.stdout.close()


if os.environ["GPUDIRECT_AVAHI"] != "yes":
    skip("built without avahi")
runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
with netns.Cable() as cable, mdns.Avahi(cable.a, "studio-a") as daemon, mdns.Avahi(cable.b, "studio-b"):
    check_found(cable)
    check_sender(cable)
    check_children(cable)
    check_names(cable)
    check_daemon(cable, daemon)
    check_python(cable)
    check_device_monitor(cable)
    check_monitor(cable)
    check_hostile(cable)  # last: the hostile records stay in the daemons' caches for two minutes
