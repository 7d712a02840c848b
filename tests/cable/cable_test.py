#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""cable_test.py END CASE [long] [PROGRAM]: streams over TCP between two hosts, of which the cable, a process or an
address fails. END is built from end.c; the sender is at host a, receivers are at b. Times are printed; what is asserted
of them is a watchdog's limit."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import netns
from verdict import check, skip, wait_for

END = os.path.abspath(sys.argv[1])
LONG = sys.argv[3:4] == ["long"]
NOTICED = 4  # s: a vanished host; two are promised
RECOVERED = 20  # s: frames again after the cable is back

folder = tempfile.TemporaryDirectory(prefix="gpud-")
KEY = os.path.join(folder.name, "key")
with open(os.open(KEY, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as key:
    key.write(os.urandom(32).hex())


class End:
    """A process that runs END, and what it has said."""

    def __init__(self, host, what, address, *options, prefix=()):
        self.name = f"{what} at {host.name}"
        runtime = tempfile.mkdtemp(dir=folder.name)
        self.output = os.path.join(runtime, "output")
        with open(self.output, "w", encoding="utf-8") as output:
            self.process = host.start(*prefix, END, what, address, f"key={KEY}", *options, stdin=subprocess.PIPE,
                                      stdout=output, stderr=subprocess.STDOUT, env={"XDG_RUNTIME_DIR": runtime})

    def lines(self, about):
        """The words of each line about that, without it."""
        with open(self.output, encoding="utf-8") as output:
            return [line.split()[1:] for line in output.read().split("\n")[:-1] if line.split()[:1] == [about]]

    def await_line(self, about, count=1, seconds=60):
        """The line that is the count-th one about that."""
        def look():
            found = self.lines(about)
            check(len(found) >= count or self.process.poll() is None, f"{self.name} has ended: {self.said()}")
            return len(found) >= count and found[count - 1]
        end = time.monotonic() + seconds
        while not look():
            check(time.monotonic() < end, f"{self.name}: not within {seconds} s: {about}, {count}: {self.said()}")
            time.sleep(0.005)
        return look()

    def time_of(self, about, count=1, seconds=60):
        return int(self.await_line(about, count, seconds)[0]) / 1e9

    def said(self):
        with open(self.output, encoding="utf-8") as output:
            return output.read()[-2000:]

    def finish(self, seconds=60):
        self.process.stdin.close()
        check(self.process.wait(seconds) == 0, f"{self.name} ends with {self.process.returncode}: {self.said()}")

    def kill(self):
        self.process.kill()
        self.process.wait()


def address_of(host, name="cam1"):
    return f"tcp://{host.address}:7175/{name}"


def check_whole(receiver, frames=None, missing=0):
    """The end of the stream: order and bytes are right."""
    _, got, gaps, wrong, repeated, dropped = map(int, receiver.await_line("ended", seconds=1200))
    check(wrong == 0 and repeated == 0, f"{receiver.name}: {wrong} wrong pictures, {repeated} repeated")
    check(missing is None or gaps == missing, f"{receiver.name}: {gaps} pictures are missing, {missing} expected")
    check(frames is None or got == frames, f"{receiver.name}: {got} pictures, {frames} expected")
    receiver.finish()
    return got, gaps, dropped


def lose(host, per_cent):
    """Packets that arrive are lost, each by itself; 0: no longer. Works where the kernel has no netem, too."""
    host.run("nft", "delete", "table", "inet", "loss")
    if per_cent:
        rule = f"numgen random mod 100000 < {int(per_cent * 1000)} drop"
        host.output("nft", f"add table inet loss; add chain inet loss in {{ type filter hook input priority 0; }}; "
                    f"add rule inet loss in {rule}")


class SecondCable:
    """Another network between the same hosts: 10.80.0.1 and 10.80.0.2."""

    def __init__(self, cable):
        self.cable, self.address = cable, "10.80.0.1"
        cable.a.output("ip", "link", "add", "second-a", "type", "veth", "peer", "name", "second-b", "netns",
                       str(cable.b.pid))
        for number, host in ((1, cable.a), (2, cable.b)):
            host.output("ip", "address", "add", f"10.80.0.{number}/24", "dev", f"second-{host.name}")
            host.output("ip", "link", "set", f"second-{host.name}", "up")

    def narrow(self, rate):
        """Limits what the sender can send; skips the test where the kernel cannot."""
        for host in (self.cable.a, self.cable.b):
            host.run("ethtool", "-K", f"second-{host.name}", "tso", "off", "gso", "off", "gro", "off")
        done = self.cable.a.run("tc", "qdisc", "add", "dev", "second-a", "root", "tbf", "rate", rate, "burst", "64k",
                                "latency", "50ms")
        if done.returncode:
            skip(f"this kernel limits no rate: {done.stderr.strip()}")


# --- the cases

def cut(cable):
    """Both ends notice that the cable is cut, and stream again once it is whole."""
    sender = End(cable.a, "send", address_of(cable.a), "rate=100", "policy=oldest")
    receiver = End(cable.b, "receive", address_of(cable.a))
    receiver.await_line("connected")
    worst, turns = 0, 0
    for how, seconds in [(cable.cut, 5), (cable.unplug, 5)] * (50 if LONG else 1):
        turns += 1
        began = time.monotonic()
        how()
        noticed = [end.time_of("lost", turns, NOTICED * 2) - began for end in (receiver, sender)]
        print(f"{how.__name__}: noticed after {noticed[0]:.2f} s by the receiver, {noticed[1]:.2f} s by the sender")
        worst = max(worst, *noticed)
        check(worst < NOTICED, f"noticed only after {worst:.2f} s")
        time.sleep(max(0, began + seconds - time.monotonic()))
        cable.mend()
        mended = time.monotonic()
        again = receiver.time_of("connected", turns + 1, RECOVERED * 2) - mended
        print(f"    after {seconds} s down: pictures again within {again:.2f} s")
        check(again < RECOVERED, f"pictures again only after {again:.2f} s")
    # A second: the connection may live on, or not.
    before = len(receiver.lines("lost"))
    cable.cut()
    time.sleep(1)
    cable.mend()
    _, _, wrong, repeated = map(int, receiver.await_line("seen", len(receiver.lines("seen")) + 2))
    print(f"after 1 s down: pictures again, {len(receiver.lines('lost')) - before} reconnects")
    check(wrong == 0 and repeated == 0, f"{wrong} wrong pictures, {repeated} repeated")
    print(f"noticed within {worst:.2f} s at most, in {turns} turns")


def killed(cable):
    """Either end's process is killed, and another one takes its place at once."""
    sender = End(cable.a, "send", address_of(cable.a), "rate=100", "policy=oldest")
    receiver = End(cable.b, "receive", address_of(cable.a))
    receiver.await_line("connected")
    for turn in range(1, 4):
        began = time.monotonic()
        sender.kill()
        sender = End(cable.a, "send", address_of(cable.a), "rate=100", "policy=oldest")
        lost = receiver.time_of("lost", turn) - began
        again = receiver.time_of("connected", turn + 1) - began
        print(f"sender killed: noticed after {lost * 1e3:.0f} ms, pictures of the next one after {again * 1e3:.0f} ms")
    for turn in range(1, 4):
        began = time.monotonic()
        receiver.kill()
        receiver = End(cable.b, "receive", address_of(cable.a))
        lost = sender.time_of("lost", turn) - began
        again = receiver.time_of("connected") - began
        print(f"receiver killed: noticed after {lost * 1e3:.0f} ms, the next one streams after {again * 1e3:.0f} ms")


def moves(cable):
    """An address that leaves and returns; a name that gets another address."""
    sender = End(cable.a, "send", "tcp://:7175/cam1", "rate=100", "policy=oldest")
    receiver = End(cable.b, "receive", address_of(cable.a))
    receiver.await_line("connected")
    cable.a.output("ip", "address", "del", f"{cable.a.address}/24", "dev", cable.a.interface)
    receiver.await_line("lost")
    cable.a.output("ip", "address", "add", f"{cable.a.address}/24", "dev", cable.a.interface)
    returned = time.monotonic()
    print(f"an address returned: pictures after {receiver.time_of('connected', 2) - returned:.2f} s")
    receiver.kill()

    hosts = os.path.join(folder.name, "hosts")
    other = "10.79.0.11"
    write(hosts, f"{cable.a.address} studio\n")
    cable.b.output("mount", "--bind", hosts, "/etc/hosts")
    receiver = End(cable.b, "receive", "tcp://studio:7175/cam1")
    receiver.await_line("connected")
    cable.a.output("ip", "address", "add", f"{other}/24", "dev", cable.a.interface)
    write(hosts, f"{other} studio\n")
    cable.a.output("ip", "address", "del", f"{cable.a.address}/24", "dev", cable.a.interface)
    moved = time.monotonic()
    # The second address of a network goes with the first, unless the kernel promotes it.
    cable.a.run("ip", "address", "add", f"{other}/24", "dev", cable.a.interface)
    print(f"a name moved: pictures after {receiver.time_of('connected', 2) - moved:.2f} s")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def loss(cable):
    """Packets are lost: nothing is, under `block`; a live sender counts what it drops."""
    delayed = cable.netem("delay", "1ms", "0.2ms", offload=False)
    print("with 1 ms ± 0.2" if delayed else "without a delay: this kernel has no netem")
    frames = 36000 if LONG else 200
    size = "1920x1080" if LONG else "640x360"
    for per_cent in [0.1] if LONG else [0.1, 1, 3]:
        for host in (cable.a, cable.b):
            lose(host, per_cent)
        began = time.monotonic()
        sender = End(cable.a, "send", address_of(cable.a), "rate=60", f"frames={frames}", f"size={size}", "wait=1")
        receiver = End(cable.b, "receive", address_of(cable.a))
        receiver.await_line("connected")
        got, _, _ = check_whole(receiver, frames)
        check(not receiver.lines("lost"), f"the connection was lost: {receiver.said()}")
        sender.await_line("sent")
        sender.finish()
        print(f"{per_cent} % lost: block: {got} pictures in {time.monotonic() - began:.1f} s, none lost")

        sender = End(cable.a, "send", address_of(cable.a), "rate=60", f"frames={frames}", f"size={size}",
                     "wait=1", "policy=oldest")
        receiver = End(cable.b, "receive", address_of(cable.a))
        receiver.await_line("connected")
        got, gaps, dropped = check_whole(receiver, missing=None)
        _, _, sent_dropped = map(int, sender.await_line("sent"))
        # Those dropped behind the last picture are in the sender's count alone.
        check(got + sent_dropped == frames and gaps == dropped <= sent_dropped,
              f"{got} pictures of {frames}, {gaps} missing between, {dropped} counted, {sent_dropped} by the sender")
        sender.finish()
        print(f"{per_cent} % lost: live: {got} pictures, {gaps} missing, {sent_dropped} dropped by the sender")
    cable.netem()


def slow(cable):
    """Four receivers, one of which has 50 Mbit/s and asks for the newest pictures: the other three lose nothing, though
    the machine is busy. How long the sender took is printed."""
    second = SecondCable(cable)
    second.narrow("50mbit")
    frames = 300
    sender = End(cable.a, "send", "tcp://:7175/cam1", "rate=50", f"frames={frames}", "size=960x540", "wait=4")
    fast = [End(cable.b, "receive", address_of(cable.a)) for _ in range(3)]
    last = End(cable.b, "receive", f"tcp://{second.address}:7175/cam1", "policy=oldest")
    began = sender.time_of("connected", 4)
    for one in fast:
        got, gaps, _ = check_whole(one, frames)
        print(f"a fast receiver: {got} pictures, {gaps} missing")
    print(f"{frames} pictures took {sender.time_of('sent') - began:.1f} s, {frames / 50:.0f} s at their rate")
    got, gaps, dropped = check_whole(last, missing=None)
    print(f"the slow receiver: {got} pictures, {gaps} missing, {dropped} dropped")
    check(gaps > 0 and gaps == dropped, f"the slow receiver lacks {gaps}, {dropped} are counted")
    sender.finish()


def paths(cable):
    """Ways through a network: one open port, a small MTU, IPv6, a link-local address with its zone."""
    cable.a.output("nft", "add table inet fire; "
                   "add chain inet fire in { type filter hook input priority 0; policy drop; }; "
                   "add rule inet fire in ct state established,related accept; "
                   "add rule inet fire in meta l4proto ipv6-icmp accept; "
                   "add rule inet fire in tcp dport 7175 accept")
    for host in (cable.a, cable.b):
        host.output("ip", "link", "set", host.interface, "mtu", "1280")
    addresses = {"a firewall with one open port, MTU 1280": ("tcp://:7175/cam1", address_of(cable.a))}
    if cable.a.has_ipv6:
        link = next(word.split("/")[0] for word in
                    cable.a.output("ip", "-6", "address", "show", "dev", cable.a.interface, "scope", "link").split()
                    if word.startswith("fe80"))
        addresses["IPv6"] = ("tcp://:7175/cam1", f"tcp://[{cable.a.address6}]:7175/cam1")
        addresses["IPv6, link-local"] = (f"tcp://[{link}%25{cable.a.interface}]:7175/cam1",
                                         f"tcp://[{link}%25{cable.b.interface}]:7175/cam1")
    for name, (at, to) in addresses.items():
        sender = End(cable.a, "send", at, "rate=50", "frames=50")
        receiver = End(cable.b, "receive", to)
        receiver.await_line("connected")
        got, _, _ = check_whole(receiver)
        sender.finish()
        print(f"{name}: {got} pictures")


def clocks(cable):
    """Ends that have another clock know it, on one host, too: the time namespace tells."""
    cases = {"two hosts": (cable.b, (), "no"), "one host": (cable.a, (), "yes"),
             "one host, two clocks": (cable.a, ("unshare", "--time", "--monotonic", "1000", "--fork"), "no")}
    for name, (host, prefix, expected) in cases.items():
        sender = End(cable.a, "send", address_of(cable.a), "rate=50", "frames=50")
        receiver = End(host, "receive", address_of(cable.a), prefix=prefix)
        _, same, path = receiver.await_line("clock")
        print(f"{name}: one clock: {same}, by {path}")
        check(path == "tcp-host", f"{name}: the route is {path}")
        check(same == expected, f"{name}: the ends say of one clock: {same}")
        check_whole(receiver)
        sender.finish()


def launch(host, name, *words):
    """gst-launch-1.0, whose elements say what passes."""
    runtime = tempfile.mkdtemp(dir=folder.name)
    output = os.path.join(runtime, name)
    with open(output, "w", encoding="utf-8") as file:
        host.start("gst-launch-1.0", "-v", *words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                   env={"XDG_RUNTIME_DIR": runtime})
    return output


def offsets(output, element):
    """Of the buffers that a fakesink of that name got."""
    found = []
    with open(output, encoding="utf-8", errors="replace") as file:
        for line in file:
            if f"{element}: last-message = chain" in line and " offset: " in line:
                found.append(int(line.split(" offset: ")[1].split(",")[0]))
    return found


def tail(output, size=2000):
    with open(output, encoding="utf-8", errors="replace") as file:
        return file.read()[-size:]


def hitless(cable):
    """A source with a main and a backup sender over two networks, each of which is cut by turns: every picture once."""
    second = SecondCable(cable)
    cuts = 100 if LONG else 4
    sink = f"gpudirectsink psk-file={KEY} sync=true slots=16 slow-receiver=drop-oldest wait-for-connection=false"
    sender = launch(cable.a, "sender", "videotestsrc", "pattern=ball", "!",
                    "video/x-raw,format=UYVY,width=320,height=180,framerate=50/1", "!", "tee", "name=t",
                    *"t. ! queue !".split(), *sink.split(), "name=main", "address=tcp://:7175/main",
                    *"t. ! queue !".split(), *sink.split(), "name=backup", "address=tcp://:7176/backup")
    receiver = launch(cable.b, "receiver", "gpudirectsrc", f"address=tcp://{cable.a.address}:7175/main",
                      f"backup-address=tcp://{second.address}:7176/backup", f"psk-file={KEY}", "slots=32",
                      "!", "fakesink", "name=seen", "silent=false", "sync=false")

    def grows(more):
        wanted = len(offsets(receiver, "seen")) + more
        end = time.monotonic() + 60
        while len(offsets(receiver, "seen")) < wanted:
            check(time.monotonic() < end, f"no pictures: {tail(receiver)} {tail(sender)}")
            time.sleep(0.05)

    def count_clients(name, clients):
        return tail(sender, 10 ** 6).count(f"GstGpudirectSink:{name}: num-clients = {clients}\n")

    grows(100)
    for turn in range(cuts):
        name, interface = [("main", cable.a.interface), ("backup", "second-a")][turn % 2]
        lost, there = count_clients(name, 0), count_clients(name, 1)
        cable.a.output("nft", "add table inet cut; add chain inet cut in { type filter hook input priority 0; }; "
                       "add chain inet cut out { type filter hook output priority 0; }; "
                       f"add rule inet cut in iifname {interface} drop; add rule inet cut out oifname {interface} drop")
        wait_for(f"{name} notices cut {turn}", lambda: count_clients(name, 0) > lost)
        grows(25)
        cable.a.output("nft", "delete", "table", "inet", "cut")
        wait_for(f"{name} is connected after cut {turn}", lambda: count_clients(name, 1) > there)
        grows(50)
    seen = offsets(receiver, "seen")
    lost = sum(b - a - 1 for a, b in zip(seen, seen[1:]) if b > a)
    repeated = sum(b <= a for a, b in zip(seen, seen[1:]))
    print(f"{cuts} cuts: {len(seen)} pictures, {lost} lost, {repeated} repeated")
    check(lost == 0 and repeated == 0, f"{lost} pictures lost, {repeated} repeated")


def drift(cable):
    """A programme's sound stays with its pictures, between two clocks."""
    program = os.path.abspath(sys.argv[4 if LONG else 3])
    seconds, rates = ("3600", ["25/1", "30000/1001", "50/1", "60000/1001"]) if LONG else ("25", ["25/1"])
    words = [f"tcp://{cable.a.address}:7175", KEY, folder.name, seconds, *rates]
    outputs = [os.path.join(folder.name, name) for name in ("sends", "receives")]
    ends = []
    for output, command in zip(outputs, ([cable.a, program, "send"],
                                         [cable.b, "unshare", "--time", "--monotonic", "1000", "--fork", program,
                                          "receive"])):
        with open(output, "w", encoding="utf-8") as file:
            ends.append(command[0].start(*command[1:], *words, stdout=file, stderr=subprocess.STDOUT,
                                         env={"XDG_RUNTIME_DIR": tempfile.mkdtemp(dir=folder.name)}))
    for end, output in zip(ends, outputs):
        check(end.wait(4000) == 0, f"{output} ends with {end.returncode}: {tail(output)}")
    print(tail(outputs[1]))


PYTHON = """
import sys, gpudirect
with gpudirect.Receiver(sys.argv[1], "host", timeout=30, psk_file=sys.argv[2]) as receiver:
    for count, frame in enumerate(receiver, 1):
        with frame:
            seen = bytes(frame.raw)
        if count == 10:
            break
print(count, len(seen))
"""


def narrow(cable):
    """Over a network that carries a tenth of the pictures: the source says so; one beside it loses none by that. And
    over one that carries none within the time for the test of a link."""
    second = SecondCable(cable)
    second.narrow("8mbit")
    launch(cable.a, "sender", "videotestsrc", "is-live=true", "!",
           "video/x-raw,format=UYVY,width=320,height=240,framerate=60/1", "!", "gpudirectsink",
           "address=tcp://:7175/cam1", f"psk-file={KEY}")
    receivers = [launch(cable.b, name, "gpudirectsrc", f"address=tcp://{address}:7175/cam1", f"psk-file={KEY}", "!",
                        "fakesink", "name=seen", "silent=false", "sync=false")
                 for name, address in (("beside", cable.a.address), ("slow", second.address))]
    wait_for("the warning", lambda: "over the network fewer come than are sent" in tail(receivers[1], 10 ** 6))
    beside, slow_one = (len(offsets(receiver, "seen")) for receiver in receivers)
    print(f"{slow_one} pictures by the slow network, {beside} by the other one")
    check(beside > 2 * slow_one, f"{beside} and {slow_one} pictures: {tail(receivers[0])}")
    check("fewer come" not in tail(receivers[0], 10 ** 6), tail(receivers[0], 10 ** 6))
    launch(cable.a, "large", "videotestsrc", "is-live=true", "!",
           "video/x-raw,format=RGBA,width=3840,height=2160,framerate=5/1", "!", "gpudirectsink",
           "address=tcp://:7176/large", f"psk-file={KEY}")
    none = launch(cable.b, "none", "gpudirectsrc", f"address=tcp://{second.address}:7176/large", f"psk-file={KEY}", "!",
                  "fakesink")
    wait_for("the reason", lambda: "too slow for frames of 33.2 MB" in tail(none, 10 ** 6))


def programs(cable):
    """Each program, once: what lists channels, the viewer, the monitor, Python, a recorder, a programme's player."""
    info, view, monitor = (os.environ[f"GPUDIRECT_{name}"] for name in ("INFO", "VIEW", "MONITOR"))
    at = f"tcp://{cable.a.address}:7175/cam1"
    width, height = 320, 180
    sender = launch(cable.a, "sender", "videotestsrc", "is-live=true", "pattern=smpte75", "!",
                    f"video/x-raw,format=UYVY,width={width},height={height},framerate=25/1", "!", "gpudirectsink",
                    "address=tcp://:7175/cam1", f"psk-file={KEY}", "audiotestsrc", "is-live=true", "!",
                    "audio/x-raw,format=S16LE,rate=48000,channels=2", "!", "gpudirectsink",
                    "address=tcp://:7175/cam1/audio", f"psk-file={KEY}")

    def listed():
        done = cable.b.run(info, "--json", "--channels", f"tcp://{cable.a.address}:7175/")
        return done.returncode == 0 and f'"{at}/audio"' in done.stdout and f'"{at}"' in done.stdout
    wait_for("gpudirect-info lists both streams", listed)
    said = cable.b.run(info, "--channels", at).stdout
    check("its host tells its name only" in said, said)
    print("gpudirect-info lists both streams of the port")
    launch(cable.a, "open", "videotestsrc", "is-live=true", "!", "gpudirectsink", "address=tcp://:7176/open",
           "allow-unauthenticated=true")
    at_open = f"tcp://{cable.a.address}:7176/open"
    wait_for("an answer of one without a key", lambda: cable.b.run(info, "--channels", at_open).returncode == 0)
    said = " ".join(cable.b.run(info, "--channels", at_open).stdout.split())
    check(f"gst-launch-1.0 on {cable.a.address}, on host" in said, said)

    if view:
        picture = os.path.join(folder.name, "cam1.png")
        cable.b.output(view, "--png", picture, "--timeout", "30", at, "--psk-file", KEY)
        with open(picture, "rb") as file:
            head = file.read(24)
        check(head[:8] == b"\x89PNG\r\n\x1a\n" and (int.from_bytes(head[16:20], "big"),
              int.from_bytes(head[20:24], "big")) == (width, height), f"{picture} begins with {head}")
        print("gpudirect-view --png has the picture")

    if monitor:
        server = cable.b.start(monitor, "--listen=127.0.0.1:0", f"--psk-file={KEY}", at, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, env={"XDG_RUNTIME_DIR": folder.name})
        url = server.stdout.readline().split()[1]
        ask = ("import sys, urllib.request; "
               "print(urllib.request.urlopen(sys.argv[1] + 'api/state', timeout=30).read().decode())")
        wait_for("the monitor shows the channel",
                 lambda: f'"{at}"' in cable.b.output(sys.executable, "-c", ask, url))
        print("gpudirect-monitor shows the channel")

    if os.environ.get("PYTHONPATH", "").count("plugins/python"):
        check(cable.b.output(sys.executable, "-c", PYTHON, at, KEY).split() == ["10", str(width * height * 2)],
              "Python got other frames")
        print("Python has ten pictures")

    record = os.path.join(folder.name, "record")
    cable.b.output("gst-launch-1.0", "gpudirectsrc", f"address={at}", f"psk-file={KEY}", "num-buffers=20", "!", "tee",
                   "name=t", *"t. ! queue !".split(), "filesink", f"location={record}", *"t. ! queue !".split(),
                   "fakesink")
    check(os.path.getsize(record) == 20 * width * height * 2, f"the record has {os.path.getsize(record)} bytes")
    print("a recorder has twenty pictures")

    player = launch(cable.b, "player", "gpudirectprogramsrc", f"address={at}", f"psk-file={KEY}", "name=p",
                    *"p.src ! queue ! fakesink name=picture silent=false".split(),
                    *"p.src_audio ! queue ! fakesink name=sound silent=false".split())
    wait_for("a programme's picture and sound",
             lambda: len(offsets(player, "picture")) > 10 and len(offsets(player, "sound")) > 10)
    print("gpudirectprogramsrc has picture and sound")
    check("ERROR" not in tail(sender, 10 ** 6), tail(sender))


def main():
    for program, package in (("nft", "nftables"), ("tc", "iproute2"), ("ethtool", "ethtool"),
                             ("gst-launch-1.0", "gstreamer1.0-tools")):
        if not shutil.which(program):
            skip(f"{program} is not installed ({package})")
    case = {"cut": cut, "killed": killed, "moves": moves, "loss": loss, "slow": slow, "paths": paths,
            "clocks": clocks, "hitless": hitless, "drift": drift,
            "narrow": narrow, "programs": programs}[sys.argv[2]]
    with contextlib.ExitStack() as stack:
        stack.callback(folder.cleanup)
        case(stack.enter_context(netns.Cable()))


main()
