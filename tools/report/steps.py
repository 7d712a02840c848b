# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a report measures: commands of gpudirect-bench, whose JSON is kept as it comes."""

import json
import pathlib
import shlex
import subprocess

import monitored

HD, UHD = (1920, 1080), (3840, 2160)
SIZES = [(640, 360), HD, UHD, (7680, 4320)]
RECEIVERS = [1, 2, 4, 8, 16]
CHANNELS_MAX = 1024
GPUS = ["cuda:0", "hip:0"]  # the first that there is is measured beside the host
MONITORED = 8  # channels of 1080p60
COPIED = 10_000_000_000  # bytes of a run in which frames are copied, at most
SLOTS = 4

# Elements that do the same, the address of each, and what else they need.
PEERS = {
    "shmsink": ("shmsink socket-path={dir}/shm shm-size={bytes}", "shmsrc socket-path={dir}/shm is-live=true ! {caps}",
                "host", "gstreamer1.0-plugins-bad"),
    "unixfdsink": ("unixfdsink socket-path={dir}/fd", "unixfdsrc socket-path={dir}/fd ! {caps}", "host",
                   "GStreamer 1.24 and gstreamer1.0-plugins-bad"),
    "cudaipcsink": ("cudaipcsink address={dir}/ipc", "cudaipcsrc address={dir}/ipc ! {caps}", "cuda:0",
                    "GStreamer 1.24 and gstreamer1.0-plugins-bad"),
}

# Between hosts: two network namespaces that a veth pair joins (an address of those for benchmarks), else loopback.
VETH = ["--to", "tcp://198.18.0.2:7175", "--net-namespaces"]
LOOPBACK = ["--to", "tcp://127.0.0.1:7175"]

# What other elements do there at 1080p60: their descriptions, the elements, where those are, and more options. Few of a
# frame's packets have marks, so that every byte is checked where packets may be lost.
RTP = ("application/x-rtp, media=video, clock-rate=90000, encoding-name=RAW, sampling=(string)YCbCr-4:2:2, "
       "depth=(string)8, width=(string)1920, height=(string)1080, colorimetry=(string)BT709-2, payload=96")
NETWORK_PEERS = {
    "tcpserversink": ("gdppay ! tcpserversink host={host} port={port}",
                      "tcpclientsrc host={host} port={port} ! gdpdepay ! {caps}",
                      ["gdppay", "tcpserversink", "tcpclientsrc", "gdpdepay"],
                      "gstreamer1.0-plugins-base and gstreamer1.0-plugins-bad", []),
    "udpsink": ("rtpvrawpay ! udpsink host={peer} port={port} sync=false",
                f'udpsrc address={{peer}} port={{port}} buffer-size=33554432 caps="{RTP}" ! rtpvrawdepay',
                ["rtpvrawpay", "udpsink", "udpsrc", "rtpvrawdepay"], "gstreamer1.0-plugins-good", ["--verify", "full"]),
}


def memory_bytes(key):
    """A line of /proc/meminfo; None: unknown."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == key:
            return int(rest.split()[0]) * 1024
    return None


def size_of(picture):
    return picture[0] * picture[1] * 2  # UYVY


def picture_of(picture):
    return ["--width", str(picture[0]), "--height", str(picture[1])]


class Place:
    """The programs, and what this machine has."""

    def __init__(self, bench, info):
        self.bench, self.info_program, self.known = bench, info, None
        monitor = pathlib.Path(bench).with_name("gpudirect-monitor")
        self.monitor = str(monitor) if monitor.exists() else None
        try:
            lines = subprocess.run(["gst-inspect-1.0", "--version"], capture_output=True, text=True, timeout=60).stdout
            named = [line.split()[-1] for line in lines.splitlines() if line.startswith("GStreamer")]
            self.gstreamer = named[0] if named else None
        except OSError:
            self.gstreamer = None

    def info(self):
        if not self.known:
            done = subprocess.run([self.info_program, "--json"], capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise RuntimeError(f"gpudirect-info says nothing of this machine: {done.stderr.strip()}")
            self.known = json.loads(done.stdout)
        return self.known

    def has_device(self, name):
        return any(device["name"] == name and device["available"] for device in self.info()["devices"])

    def gpu(self):
        return next(filter(self.has_device, GPUS), None)

    def has_element(self, name):
        """Not --exists: that wants GStreamer's own version number."""
        return subprocess.run(["gst-inspect-1.0", name], capture_output=True, timeout=60).returncode == 0

    def why_not(self, sink):
        """Why there is nothing to compare with this sink of GStreamer's; None: it can be compared."""
        device, package = PEERS[sink][2:]
        without = self.why_no_elements([sink, sink.replace("sink", "src")], package)
        return without or (None if self.has_device(device) else f"there is no {device} on this machine")

    def why_no_elements(self, names, package):
        """Why these cannot be compared with gpudirectsink; None: they can."""
        if not self.gstreamer:
            return "GStreamer's tools are not installed (apt install gstreamer1.0-tools)"
        for name in names:
            if not self.has_element(name):
                return f"GStreamer {self.gstreamer} has no {name} here: it needs {package}"
        return None if self.has_element("gpudirectsink") else "GStreamer does not find gpudirectsink (GST_PLUGIN_PATH)"

    def network(self):
        """The bench's options for two hosts on this machine, and why the library does not send so; None: it does."""
        made = subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=60)
        options = LOOPBACK if made.returncode else VETH
        tried = subprocess.run([self.bench, *options, *picture_of((64, 36)), "--frames", "2", "--warmup", "0"],
                               capture_output=True, text=True, timeout=120)
        lines = tried.stderr.strip().splitlines()
        return options, lines[-1].removeprefix("gpudirect-bench: ") if tried.returncode and lines else None


class Step:
    """One command; seconds: about how long it takes; skip: why it is not run, or None."""

    def __init__(self, kind, title, seconds, arguments, skip=None, **what):
        self.kind, self.title, self.seconds, self.skip = kind, title, 0 if skip else max(seconds, 1), skip
        self.arguments, self.what = [str(word) for word in arguments], what

    def outcome(self, status, reason, results):
        return {"kind": self.kind, "title": self.title, **self.what, "status": status, "reason": reason,
                "command": shlex.join(["gpudirect-bench", "--json", *self.arguments]), "results": results}

    def run(self, place):
        if self.skip:
            return self.outcome("skipped", self.skip, [])
        try:
            return self.outcome("measured", None, self.measure(place))
        except RuntimeError as error:
            return self.outcome("failed", str(error), [])

    def call(self, place, *arguments):
        with monitored.ended(monitored.start_bench(place.bench, [*self.arguments, *arguments])) as process:
            return monitored.result_of(process, 60 + 20 * self.seconds)

    def measure(self, place):
        return [self.call(place)]


class ChannelStep(Step):
    """Takes four times as many channels until a frame is late or lost, then halves the interval to the last number that
    went well, down to a quarter. No more channels than half of the free memory holds. A number that the system does not
    let it open ends the search, too, and `limit` says why."""

    def measure(self, place):
        results, good, bad = [], 0, None
        number = 4 if self.what["channels_max"] >= 4 else 1
        while number:
            try:
                row = self.call(place, "--channels", str(number))
            except RuntimeError as error:
                if not results:
                    raise
                self.what["limit"] = str(error)
                break
            results.append(row)
            if row["channels"][0]["late"] or row["channels"][0]["lost"]:
                bad = number
            else:
                good = number
            if bad is None:
                number = min(4 * number, self.what["channels_max"]) if number < self.what["channels_max"] else 0
            else:
                number = (good + bad) // 2 if bad - good > max(bad // 4, 1) else 0
        return results


class MonitorStep(Step):
    """Two results: without a monitor, and beside one. `monitor` has what that took."""

    def __init__(self, device, seconds, skip):
        super().__init__("monitor", f"{MONITORED} channels of 1080p60 beside gpudirect-monitor, {device}",
                         2 * (seconds + 8), ["--channels", MONITORED, "--apart", *on(device), *picture_of(HD),
                                             "--fps", 60, "--frames", 60 * seconds,
                                             "--warmup", 60 * monitored.WARMUPS[0]], skip, name=device)
        self.watched = seconds

    def measure(self, place):
        try:
            without, beside, self.what["monitor"] = monitored.measure(
                place.bench, place.monitor, self.arguments, MONITORED, self.watched)
        except OSError as error:
            raise RuntimeError(str(error)) from None
        return [without, beside]


def on(device):
    return ["--from", device, "--to", device] if device != "host" else []


def channel_step(device, quick):
    name, rate, each = f"1080p60, {device}", 60, SLOTS * size_of(HD)
    most = 2 if quick else max(min(CHANNELS_MAX, memory_bytes("MemAvailable") // 2 // each), 1)
    frames = 20 if quick else 2 * rate
    # With the four seconds in which the bench counts wake-ups without frames.
    return ChannelStep("channels", f"channels of {name}", (1 if quick else 7) * (frames / rate + 4.5),
                       [*on(device), *picture_of(HD), "--fps", rate, "--frames", frames, "--warmup", rate // 5],
                       name=name, channels_max=most)


def peer_step(place, sink, quick):
    there, back, device, _ = PEERS[sink]
    frames, runs = (40, 1) if quick else (150, 3)
    return Step("beside", f"beside {sink}", 2 * runs * (frames / 50 + 1),
                ["--elements", *on(device), *picture_of(HD), "--fps", 50, "--frames", frames, "--runs", runs,
                 "--distribution", "--compare", f"{there} | {back}"],
                place.why_not(sink), name=sink)


def size_steps(picture, device, quick, fast):
    name, copied = f"{picture[0]}x{picture[1]}", max(min(COPIED // size_of(picture), fast, 1000), 50)
    where = "" if device == "host" else f", {device}"
    return [Step("size", f"throughput of {name}, {source}{where}", 3 if quick else 4,
                 [*on(device), *picture_of(picture), "--source", source, "--timeout", 300, "--frames",
                  fast if source == "lent" else copied], name=f"{source}{where}", bytes=size_of(picture))
            for source in ("lent", "foreign")]


def network_steps(place, quick):
    """Encrypted and plain; with the plain link other programs, and beside elements of GStreamer's."""
    (options, refusal), steps = place.network(), []
    link = "a veth pair" if options == VETH else "loopback"
    frames = 30 if quick else 300
    for name, more in (("TLS", []), ("plain", ["--allow-unauthenticated", *([] if quick else ["--peers"])])):
        programs = 15 if "--peers" in more else 0
        steps += [Step("network", f"throughput of 3840x2160 over {link}, {name}", 4 + frames / 60 + programs,
                       [*options, *more, *picture_of(UHD), "--frames", frames], refusal, name=name),
                  Step("network-latency", f"latency of 1080p60 over {link}, {name}", 4 + 2 * frames / 60 + programs,
                       [*options, *more, *picture_of(HD), "--fps", 60, "--frames", frames], refusal, name=name)]
    for name, (there, back, elements, package, more) in NETWORK_PEERS.items():
        each, runs = (30, 1) if quick else (100, 3)
        steps.append(Step("network-beside", f"beside {name}, 1080p60 over {link}", 4 * runs * (each / 60 + 1),
                          ["--elements", *options, *picture_of(HD), "--fps", 60, "--frames", each, "--runs", runs,
                           *more, "--compare", f"{there} | {back}"],
                          refusal or place.why_no_elements(elements, package), name=name))
    return steps


def plan(place, quick):
    """All steps of a report: on the host, and on a GPU if there is one."""
    paced, fast = (40, 100) if quick else (1000, 5000)
    gpu = place.gpu()
    devices = ["host", gpu] if gpu else ["host"]
    steps = [Step("latency", f"latency of 1080p50, {name}", paced / 50 + 2,
                  [*on(device), *picture_of(HD), "--fps", 50, "--frames", paced, "--source", source, "--distribution"],
                  name=name)
             for name, source, device in [("lent", "lent", "host"), ("foreign", "foreign", "host"),
                                          (f"lent, {gpu}", "lent", gpu)][:3 if gpu else 2]]
    steps += [peer_step(place, sink, quick) for sink in PEERS]
    steps += [step for device in devices for picture in (SIZES[:2] if quick else SIZES)
              for step in size_steps(picture, device, quick, fast)]
    steps += [Step("receivers", f"receivers: {count}", 3 if quick else 4,
                   [*picture_of(HD), "--receivers", count, "--frames", fast], receivers=count)
              for count in (RECEIVERS[:2] if quick else RECEIVERS)]
    steps += [channel_step(device, quick) for device in devices]
    no_monitor = None if place.monitor else "gpudirect-monitor is not installed beside gpudirect-bench"
    steps += [MonitorStep(device, 2 if quick else 6, no_monitor) for device in devices]
    steps += [Step("failover", f"failover by {shape}, 1080p50", 5 if quick else 9,
                   ["--failover", shape, *picture_of(HD), "--fps", 50, "--frames", 60 if quick else 300,
                    "--warmup", 10], name="1080p50", shape=shape) for shape in ("group", "standby")]
    return steps + network_steps(place, quick)
