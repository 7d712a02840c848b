# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a report measures: commands of gpudirect-bench, whose JSON is kept as it comes."""

import contextlib
import itertools
import json
import pathlib
import shlex
import shutil
import subprocess

import monitored
import peers

HD, UHD = (1920, 1080), (3840, 2160)
SIZES = [(640, 360), HD, UHD, (7680, 4320)]
RECEIVERS = [1, 4, 16]
TENSORS = [2**16, 2**20, 2**24, 2**28, 2**31]  # bytes
CHANNELS_MAX = 1024
GPUS = ["cuda:0", "hip:0"]  # the first that there is is measured beside the host
MONITORED = 8  # channels of 1080p60
COPIED = 10_000_000_000  # bytes of a run in which frames are copied, at most
SLOTS = 4

# Between hosts: two network namespaces that a veth pair joins, else loopback.
VETH = ["--to", f"tcp://{peers.SENDER}:7175", "--net-namespaces"]
LOOPBACK = ["--to", "tcp://127.0.0.1:7175"]

# What a row of gpudirect's own is, by its name: where, the bench's options, and how a frame gets there.
OURS = {
    "memory and futexes": ("beside", ["--floor"], "a word for each frame and receiver in shared memory: the floor"),
    "gpudirect": ("beside", [], "the library's C API"),
    "gpudirectsink": ("beside", ["--elements"], "its elements for GStreamer"),
    "gpudirect, TLS": ("hosts", [], "the library's C API, TLS 1.3"),
    "gpudirect, plain": ("hosts", ["--allow-unauthenticated"], "the same, not encrypted"),
    "gpudirectsink, TLS": ("hosts", ["--elements"], "its elements for GStreamer"),
    "send and recv": ("hosts", ["--ceilings", "--allow-unauthenticated"],
                      "plain TCP by two processes that do nothing else: the floor"),
    "send and recv, AES-128-GCM": ("hosts", ["--ceilings"], "the same, encrypted as by TLS: the floor of TLS"),
}
ROUNDS = 3
WHILE = 0.3  # seconds in which frames go as fast as they can
FAST_MIN, FAST_MAX = 8, 50000  # frames
RATE = 60


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
        self.open, self.opened = contextlib.ExitStack(), {}
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
        return bool(self.gstreamer) and subprocess.run(["gst-inspect-1.0", name], capture_output=True,
                                                       timeout=60).returncode == 0

    def why_no_elements(self, elements):
        """Why these cannot be compared with gpudirectsink; None: they can."""
        if not self.gstreamer:
            return "GStreamer's tools are not installed (apt install gstreamer1.0-tools)"
        for name in elements.names():
            if not self.has_element(name):
                return f"not here: install {elements.package} (GStreamer {self.gstreamer} has no {name})"
        if "pipewire" in elements.sink and not all(map(shutil.which, ("dbus-run-session", "wireplumber", "pw-dump"))):
            return f"not here: install {elements.package}"
        if not self.has_device(elements.device):
            return f"there is no {elements.device} on this machine"
        return None

    def network(self):
        """The bench's options for two hosts on this machine, and why the library does not send so; None: it does."""
        try:
            done = subprocess.run(["unshare", "--net", "--mount", "ip", "link"], capture_output=True, timeout=60)
            made = done.returncode == 0
        except OSError:
            made = False
        options = VETH if made else LOOPBACK
        tried = subprocess.run([self.bench, *options, *picture_of((64, 36)), "--frames", "2", "--warmup", "0"],
                               capture_output=True, text=True, timeout=120)
        lines = tried.stderr.strip().splitlines()
        return options, lines[-1].removeprefix("gpudirect-bench: ") if tried.returncode and lines else None

    def opens(self, what):
        """What a context manager gives, which stays open until the report ends."""
        if what not in self.opened:
            self.opened[what] = self.open.enter_context(what())
        return self.opened[what]


class Step:
    """One command; seconds: about how long it takes; skip: why it is not run, or None."""

    def __init__(self, kind, title, seconds, arguments, skip=None, **what):
        self.kind, self.title, self.seconds, self.skip = kind, title, 0 if skip else max(seconds, 1), skip
        self.arguments, self.what = [str(word) for word in arguments], what

    def command(self):
        return shlex.join(["gpudirect-bench", "--json", *self.arguments])

    def outcome(self, status, reason, results):
        return {"kind": self.kind, "title": self.title, **self.what, "status": status, "reason": reason,
                "command": self.command(), "results": results}

    def run(self, place):
        if self.skip:
            return self.outcome("skipped", self.skip, [])
        try:
            return self.outcome("measured", None, self.measure(place))
        except RuntimeError as error:
            return self.outcome("failed", str(error), [])

    def call(self, place, *arguments, env=None):
        words = map(str, [*self.arguments, *arguments])
        with monitored.ended(monitored.start_bench(place.bench, words, env)) as process:
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


class RowStep(Step):
    """A row of a table of peers: `runs` has figures of each round by name, `limit` why some are missing. Rates are as
    fast as it goes, all else at a pace."""

    def __init__(self, kind, name, note, picture, receivers, quick, skip, arguments=(), device="host"):
        super().__init__(kind, f"{name}, {picture[1]}p to {receivers}", (2 if quick else 9) + receivers // 4, arguments,
                         skip, name=name, note=note, height=picture[1], receivers=receivers, device=device)
        self.picture, self.rounds = picture, 1 if quick else ROUNDS
        self.frames = 30 if quick else 48 if receivers > 1 else 96
        self.reasons = []

    def attempt(self, what, measure):
        """[]: it failed, and the row says why."""
        try:
            return measure()
        except (RuntimeError, OSError) as error:
            self.reasons.append(f"{what}{error}")
            return []

    def measure(self, place):
        self.what["runs"] = self.rows(place)
        if not self.what["runs"]:
            raise RuntimeError("; ".join(self.reasons))
        if self.reasons:
            self.what["limit"] = "; ".join(self.reasons)
        return []


def figures_of(result):
    """Of each run of the bench; without the library those of TCP alone, its main ceiling."""
    for run in result.get("runs", [result]):
        plain = run["ceiling"] if run["ceiling"]["key"] == "tcp" else None
        cpu = (plain or run)["cpu_us_per_frame"]
        p50, p99 = (plain["value"], plain["p99"]) if plain else (run["latency_us"]["p50"], run["latency_us"]["p99"])
        paced = {"latency_us_p50": p50, "latency_us_p99": p99, "sender_cpu_us": cpu["sender"],
                 "receiver_cpu_us": cpu["receiver"]}
        figures = paced if run["parameters"]["fps"] else {"fps": plain["value"] if plain else run["fps"]}
        yield {name: value for name, value in figures.items() if value is not None}, run["lost"] + run["torn"]


class BenchStep(RowStep):
    """What gpudirect-bench measures."""

    def __init__(self, *row, arguments, fast=(), daemon=None, **more):
        super().__init__(*row, **more)
        self.arguments = [str(word) for word in [
            *arguments, *([] if "--ceilings" in arguments else ["--no-ceilings"]), *picture_of(self.picture),
            "--receivers", self.what["receivers"], "--warmup", SLOTS, "--timeout", 30]]
        self.fast, self.daemon = [*fast, "--frames", FAST_MIN], daemon

    def paced(self):
        return ["--fps", RATE, "--frames", self.frames, "--runs", self.rounds]

    def command(self):
        return " && ".join(shlex.join(map(str, ["gpudirect-bench", *self.arguments, *more]))
                           for more in (self.fast, self.paced()))

    def rows(self, place):
        env = place.opens(self.daemon) if self.daemon else None

        def reached():
            return next(figures_of(self.call(place, *self.fast, env=env)))[0]["fps"]

        def fast():
            rate, before = 0, 0
            if self.rounds > 1:  # else a short run is as long as the first
                rate = reached()
            # The first frames are slow, so that a run is made longer until that changes its rate no more, or it takes a
            # second.
            while rate > 1.3 * before and 4 * self.fast[-1] < min(rate, FAST_MAX):
                self.fast[-1], before = 4 * self.fast[-1], rate
                rate = max(rate, reached())
            self.fast[-1:] = [min(max(int(rate * WHILE), self.fast[-1]), FAST_MAX), "--runs", self.rounds]
            return list(figures_of(self.call(place, *self.fast, env=env)))

        quick = self.attempt("as fast as it goes: ", fast)
        if quick and max(one["fps"] for one, _ in quick) < RATE / 2:
            self.reasons.append(f"at {RATE} a second: it does not reach half of that")
            paced = []
        else:
            paced = self.attempt(f"at {RATE} a second: ", lambda: list(
                figures_of(self.call(place, *self.paced(), env=env))))
        return [one | two | {"damaged": bad + worse} for (one, bad), (two, worse) in
                itertools.zip_longest(quick, paced, fillvalue=({}, 0))]


class ProgramStep(RowStep):
    """A program of its own."""

    def __init__(self, program, *row, link, **more):
        super().__init__(*row, **more)
        self.program, self.link = program, link
        self.facts = {"width": self.picture[0], "height": self.picture[1], "bytes": size_of(self.picture),
                      "frames": self.frames, "receivers": self.what["receivers"],
                      "device": self.what["device"].replace("host", "cpu")}
        if self.rounds == 1:
            self.facts["number"] = 20  # messages

    def command(self):
        address = peers.RECEIVER if self.link else peers.Link().address
        facts = peers.all_facts(self.facts, address) | {"torch": "python3", "folder": "tools/report"}  # of any machine
        return " & ".join(shlex.join(peers.fill_in(command, facts))
                          for client, _ in self.program.clients for command in (self.program.server, client) if command)

    def rows(self, place):
        return self.attempt("", lambda: [
            peers.run_program(self.program, self.facts, place.opens(peers.two_hosts) if self.link else peers.Link())
            for _ in range(self.rounds)])


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


def size_steps(picture, device, quick, fast):
    name, copied = f"{picture[0]}x{picture[1]}", max(min(COPIED // size_of(picture), fast, 1000), 50)
    where = "" if device == "host" else f", {device}"
    return [Step("size", f"throughput of {name}, {source}{where}", 3 if quick else 4,
                 [*on(device), *picture_of(picture), "--source", source, "--timeout", 300, "--frames",
                  fast if source == "lent" else copied], name=f"{source}{where}", bytes=size_of(picture))
            for source in ("lent", "foreign")]


def tensor_steps(place, device, quick):
    """A tensor of each size at a pace, on the GPU if there is one, as far as a quarter of the memory holds the frames;
    then the same by torch.multiprocessing."""
    torch, steps = peers.PROGRAMS[0], []
    fits = memory_bytes("MemAvailable") // 4 // SLOTS if device == "host" else TENSORS[-1]
    for size in TENSORS[:2] if quick else [size for size in TENSORS if size <= fits]:
        steps += [Step("tensor", f"a tensor of {size} bytes, {device}", 2 if quick else 8, [
            *on(device), "--media", "tensor", "--bytes", size, "--fps", RATE, "--frames", 30 if quick else 120,
            "--warmup", SLOTS], name="gpudirect", bytes=size),
            ProgramStep(torch, "tensor", torch.name, torch.note, link=None, picture=(size // 16, 8), receivers=1,
                        quick=quick, skip=peers.why_no_program(torch), device=device)]
        steps[-1].title, steps[-1].what["bytes"] = f"{torch.name}, a tensor of {size} bytes", size
    return steps


def row_steps(place, quick):
    """The tables of peers: by picture and number of receivers all rows after each other, so that what else the machine
    does meets all of them."""
    options, refusal = place.network()
    gpu, steps = place.gpu(), []
    why_not = {elements.name: place.why_no_elements(elements) for elements in peers.ELEMENTS}
    no_sink = None if place.has_element("gpudirectsink") else "GStreamer does not find gpudirectsink (GST_PLUGIN_PATH)"
    cells = [("beside", picture, count) for picture in (HD, UHD) for count in RECEIVERS]
    cells += [("hosts", HD, 1), ("hosts", UHD, 1)]
    for kind, picture, count in [cells[0], cells[-2]] if quick else cells:
        network, cell = options if kind == "hosts" else [], {"picture": picture, "receivers": count, "quick": quick}
        for name, (where, arguments, note) in OURS.items():
            skip = (refusal if kind == "hosts" else None) or (no_sink if "--elements" in arguments else None)
            for device in ("host", gpu) if gpu and kind == "beside" and "--floor" not in arguments else ("host",):
                if where == kind:
                    steps.append(BenchStep(kind, name, note, skip=skip, device=device, **cell,
                                           arguments=[*network, *arguments, *on(device)]))
        for elements in peers.ELEMENTS:
            lines = [line.replace("{width}", str(picture[0])).replace("{height}", str(picture[1]))
                     for line in (elements.sink, elements.source)]
            over = network if network or "{port}" not in elements.sink else LOOPBACK
            if kind in elements.where:
                steps.append(BenchStep(
                    kind, elements.name, elements.note, skip=why_not[elements.name], device=elements.device, **cell,
                    fast=elements.fast, daemon=peers.pipewire if "pipewire" in elements.sink else None,
                    arguments=[*over, *on(elements.device), "--sink", lines[0], "--src", lines[1]]))
        for program in peers.PROGRAMS:
            devices = ("host", gpu) if gpu == "cuda:0" and "{device}" in program.clients[0][0] else ("host",)
            steps += [ProgramStep(program, kind, program.name, program.note, skip=peers.why_no_program(program), **cell,
                                  device=device, link=network == VETH)
                      for device in devices if program.where == kind and count <= program.receivers]
    return steps


def plan(place, quick, beside):
    """All steps of a report, on the host, and on a GPU if there is one; beside: only those beside others."""
    if beside:
        return row_steps(place, quick)
    paced, fast = (40, 100) if quick else (300, 5000)
    gpu = place.gpu()
    devices = ["host", gpu] if gpu else ["host"]
    steps = [Step("latency", f"latency of 1080p50, {name}", paced / 50 + 2,
                  [*on(device), *picture_of(HD), "--fps", 50, "--frames", paced, "--source", source, "--distribution"],
                  name=name)
             for name, source, device in [("lent", "lent", "host"), ("foreign", "foreign", "host"),
                                          (f"lent, {gpu}", "lent", gpu)][:3 if gpu else 2]]
    steps += [step for device in devices for picture in (SIZES[:2] if quick else SIZES)
              for step in size_steps(picture, device, quick, fast)]
    steps += tensor_steps(place, devices[-1] if devices[-1] != "hip:0" else "host", quick)
    steps += [channel_step(device, quick) for device in devices]
    no_monitor = None if place.monitor else "gpudirect-monitor is not installed beside gpudirect-bench"
    steps += [MonitorStep(device, 2 if quick else 6, no_monitor) for device in devices]
    steps += [Step("failover", f"failover by {shape}, 1080p50", 5 if quick else 9,
                   ["--failover", shape, *picture_of(HD), "--fps", 50, "--frames", 60 if quick else 300,
                    "--warmup", 10], name="1080p50", shape=shape) for shape in ("group", "standby")]
    return row_steps(place, quick) + steps
