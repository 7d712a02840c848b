# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a report measures: commands of gpudirect-bench, whose JSON is kept as it comes."""

import json
import pathlib
import shlex
import subprocess

HD, UHD = (1920, 1080), (3840, 2160)
SIZES = [(320, 180), (640, 360), (1280, 720), HD, UHD, (7680, 4320)]
RATES = [("1080p50", HD, 50), ("2160p60", UHD, 60)]
RECEIVERS = [1, 2, 4, 8, 16]
CHANNELS_MAX = 1024
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

    def has_element(self, name):
        """Not --exists: that wants GStreamer's own version number."""
        return subprocess.run(["gst-inspect-1.0", name], capture_output=True, timeout=60).returncode == 0

    def why_not(self, sink):
        """Why there is nothing to compare with this sink of GStreamer's; None: it can be compared."""
        device, package = PEERS[sink][2:]
        if not self.gstreamer:
            return "GStreamer's tools are not installed (apt install gstreamer1.0-tools)"
        for name in (sink, sink.replace("sink", "src")):
            if not self.has_element(name):
                return f"GStreamer {self.gstreamer} has no {name} here: it needs {package}"
        if not self.has_device(device):
            return f"there is no {device} on this machine"
        return None if self.has_element("gpudirectsink") else "GStreamer does not find gpudirectsink (GST_PLUGIN_PATH)"


class Step:
    """One command; seconds: about how long it takes; skip: why it is not run, or None."""

    def __init__(self, kind, title, seconds, arguments, skip=None, **what):
        self.kind, self.title, self.seconds, self.skip = kind, title, max(seconds, 1), skip
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
        """Its JSON. Exit status 3 says that frames were lost or torn, which the JSON has."""
        command = [place.bench, "--json", *self.arguments, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=60 + 20 * self.seconds)
        except subprocess.TimeoutExpired:
            process.terminate()  # so that it ends its children
            process.communicate()
            raise RuntimeError("it did not end in time") from None
        except KeyboardInterrupt:
            process.communicate()  # the same signal has ended it
            raise
        if process.returncode not in (0, 3):
            raise RuntimeError((err.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
                               .removeprefix("gpudirect-bench: "))
        return json.loads(out)

    def measure(self, place):
        return [self.call(place)]


class ChannelStep(Step):
    """Doubles the number of channels until a frame is late or lost, then halves the interval to the last that went
    well, down to an eighth. No more channels than half of the free memory holds. A number that the system does not let
    it open ends the search, too, and `limit` says why."""

    def measure(self, place):
        results, good, bad = [], 0, None
        number = 1
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
                number = min(2 * number, self.what["channels_max"]) if number < self.what["channels_max"] else 0
            else:
                number = (good + bad) // 2 if bad - good > max(bad // 8, 1) else 0
        return results


def channel_step(name, picture, rate, quick):
    each = SLOTS * size_of(picture)
    most = 2 if quick else max(min(CHANNELS_MAX, memory_bytes("MemAvailable") // 2 // each), 1)
    frames = 20 if quick else 5 * rate
    return ChannelStep("channels", f"channels of {name}", (1 if quick else 12) * (frames / rate + 6),
                       [*picture_of(picture), "--fps", rate, "--frames", frames, "--warmup", rate // 5], name=name,
                       channels_max=most)


def peer_step(place, sink, quick):
    there, back, device, _ = PEERS[sink]
    frames, runs = (40, 1) if quick else (500, 3)
    devices = ["--from", device, "--to", device] if device != "host" else []
    return Step("beside", f"beside {sink}", 2 * runs * (frames / 50 + 1),
                ["--elements", *devices, *picture_of(HD), "--fps", 50, "--frames", frames, "--runs", runs,
                 "--distribution", "--compare", f"{there} | {back}"],
                place.why_not(sink), name=sink)


def plan(place, quick):
    """All steps of a report."""
    paced, fast = (40, 100) if quick else (1000, 5000)
    steps = [Step("latency", f"latency of 1080p50, {source}", paced / 50 + 2,
                  [*picture_of(HD), "--fps", 50, "--frames", paced, "--source", source, "--distribution"], name=source)
             for source in ("lent", "foreign")]
    steps += [peer_step(place, sink, quick) for sink in PEERS]
    for picture in SIZES[:2] if quick else SIZES:
        name = f"{picture[0]}x{picture[1]}"
        copied = max(min(COPIED // size_of(picture), fast, 1000), 50)
        steps += [Step("size", f"throughput of {name}, {source}", 3 if quick else 6,
                       [*picture_of(picture), "--source", source, "--timeout", 300, "--frames",
                        fast if source == "lent" else copied], name=source, bytes=size_of(picture))
                  for source in ("lent", "foreign")]
    steps += [Step("receivers", f"receivers: {count}", 3 if quick else 5,
                   [*picture_of(HD), "--receivers", count, "--frames", fast], receivers=count)
              for count in (RECEIVERS[:2] if quick else RECEIVERS)]
    steps += [channel_step(name, picture, rate, quick) for name, picture, rate in RATES]
    steps += [Step("failover", f"failover by {shape}, {name}", 5 if quick else 9,
                   ["--failover", shape, *picture_of(picture), "--fps", rate, "--frames", 60 if quick else 300,
                    "--warmup", 10], name=name, shape=shape)
              for name, picture, rate in RATES[:1 if quick else None] for shape in ("group", "standby")]
    return steps
