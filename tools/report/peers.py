# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What is measured beside gpudirect: a table of GStreamer's elements, which gpudirect-bench drives as it drives
gpudirectsink, and one of programs of their own. Another peer is a line in one of them."""

import contextlib
import functools
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

PATIENCE = 60  # seconds, for one run of a program
RETRIES = 20  # seconds in which a client finds its server, on a machine that is busy with other things
SERVER_END = 5
MOVED = 1_000_000_000  # bytes of a run of a program that takes a number of messages
SENDER, RECEIVER = "198.18.0.2", "198.18.0.3"  # addresses for benchmarks, which a veth pair joins

RTP = ("application/x-rtp, media=video, clock-rate=90000, encoding-name=RAW, sampling=(string)YCbCr-4:2:2, "
       "depth=(string)8, width=(string){width}, height=(string){height}, colorimetry=(string)BT709-2, payload=96")
UDP = ('udpsrc address=ADDRESS port={port} buffer-size=33554432 caps="' + RTP + '" ! rtpvrawdepay')
GROUP = "239.255.71.75"


class Elements(typing.NamedTuple):
    """Braces are gpudirect-bench's, and {width} and {height}. where: on one host, or between two."""
    name: str
    where: tuple
    sink: str
    source: str
    package: str
    note: str
    device: str = "host"
    fast: tuple = ()  # options of the bench where it sends as fast as it goes

    def names(self):
        return re.findall(r"(?:^|! )([a-z]\w+)(?= |$)", self.sink + " ! " + self.source)


ELEMENTS = [
    Elements("shmsink", ("beside",), "shmsink socket-path={dir}/shm shm-size={bytes}",
             "shmsrc socket-path={dir}/shm is-live=true ! {caps}", "gstreamer1.0-plugins-bad",
             "frames are written into its shared memory; a message for each over a socket"),
    Elements("unixfdsink", ("beside",), "unixfdsink socket-path={dir}/fd", "unixfdsrc socket-path={dir}/fd ! {caps}",
             "GStreamer 1.24 and gstreamer1.0-plugins-bad", "a descriptor for each frame over a socket"),
    Elements("cudaipcsink", ("beside",), "cudaipcsink address={dir}/ipc", "cudaipcsrc address={dir}/ipc ! {caps}",
             "GStreamer 1.24 and gstreamer1.0-plugins-bad", "a handle of CUDA memory for each frame over a socket",
             "cuda:0"),
    Elements("pipewiresink", ("beside",), "pipewiresink mode=provide sync=false stream-properties=p,node.name=bench,"
             "media.class=Video/Source,media.role=Camera", "pipewiresrc target-object=bench ! {caps}",
             "gstreamer1.0-pipewire, pipewire, pipewire-bin, wireplumber and dbus-daemon",
             "buffers that a daemon of the run's own arranges, whose CPU time is not counted; it is made for a pace",
             fast=("--timeout", "8")),
    Elements("tcpserversink", ("beside", "hosts"), "gdppay ! tcpserversink host={host} port={port}",
             "tcpclientsrc host={host} port={port} blocksize=1000000 ! gdpdepay ! {caps}",
             "gstreamer1.0-plugins-base and gstreamer1.0-plugins-bad", "every byte through the kernel, not encrypted"),
    Elements("udpsink, multicast", ("beside",), f"rtpvrawpay ! udpsink host={GROUP} port={{port}} multicast-iface=lo "
             "sync=false", UDP.replace("ADDRESS", f"{GROUP} multicast-iface=lo"), "gstreamer1.0-plugins-good",
             "RTP packets; as fast as it goes every byte is filled and checked, since packets are lost",
             fast=("--verify", "full")),
    Elements("udpsink", ("hosts",), "rtpvrawpay ! udpsink host={peer} port={port} sync=false",
             UDP.replace("ADDRESS", "{peer}"), "gstreamer1.0-plugins-good",
             "RTP packets; as fast as it goes every byte is filled and checked, since packets are lost",
             fast=("--verify", "full")),
]


# What the output of a client says of messages, by the names in report.json; "number" of them, or None if the CPU time
# of both ends is not that of the messages.

def read_iperf3(text, size, _):
    received = json.loads(text)["end"]["sum_received"]
    return {"fps": received["bits_per_second"] / 8 / size, "number": received["bytes"] / size}


def read_openssl(text, size, _):
    blocks, seconds = re.search(r"\+R:(\d+):[^:]*GCM:([\d.]+)", text).groups()
    return {"fps": int(blocks) * 16384 / float(seconds) / size, "number": None}


def last_numbers(text, separator):
    """Of the last line that begins with a digit."""
    line = [line for line in text.splitlines() if line.strip()[:1].isdigit()][-1]
    return [word.strip() for word in line.split(separator) if word.strip()]


def read_ucx_rate(text, size, number):
    """iterations, percentile, average, overall, average MiB/s, overall MiB/s, …"""
    return {"fps": float(last_numbers(text, ",")[5]) * 2**20 / size, "number": number}


def read_ucx_p50(text, _, number):
    return {"latency_us_p50": float(last_numbers(text, ",")[1]), "number": 2 * number}


def read_ucx_p99(text, _, number):
    return {"latency_us_p99": float(last_numbers(text, ",")[1]), "number": 2 * number}


def read_pingpong(text, _, number):
    """bytes, #sent, #ack, total, time, MB/sec, usec/xfer, …"""
    us = float(last_numbers(text, " ")[6])
    return {"fps": 1e6 / us, "latency_us_p50": us, "number": 2 * number}


def read_run(text, *_):
    """Figures as they are kept."""
    return json.loads(text)


class Program(typing.NamedTuple):
    """{peer} is the server's address, {port} its port, {bytes} a frame's size, {number} how many messages are sent.
    clients: what is run one after the other, each with what reads its output."""
    name: str
    where: str
    package: str
    server: str
    clients: tuple
    note: str
    receivers: int = 1  # at most


UCX = "env UCX_TLS={tls} ucx_perftest {ucx_alone} {peer} -p {port} -s {bytes} -n {number} -w 5 -f -v -t "
UCX_NOTE = ("messages of a frame's size, every byte copied to the receiver, which does not read it; times of one "
            "message after the other, without a pace; both ends spin, and their start is part of the CPU time")


def ucx(name, where, tls):
    client = UCX.replace("{tls}", tls)
    return Program(name, where, "ucx-utils", f"env UCX_TLS={tls} ucx_perftest {{ucx_alone}} -p {{port}}",
                   ((client + "tag_bw", read_ucx_rate), (client + "tag_lat -R 50", read_ucx_p50),
                    (client + "tag_lat -R 99", read_ucx_p99)), UCX_NOTE)


def pingpong(name, where, provider):
    command = f"fi_pingpong {provider} -{{}} {{{{port}}}} -S {{{{bytes}}}} -I {{{{number}}}}"
    return Program(name, where, "libfabric-bin", command.format("B"),
                   ((command.format("P") + " {peer}", read_pingpong),),
                   "messages of a frame's size, one after the other, without a pace; the time is the mean")


PROGRAMS = [
    Program("torch.multiprocessing", "beside", "python3-torch", None,
            (("{torch} {folder}/torchpeer.py --width {width} --height {height} --receivers {receivers} "
              "--device {device} --frames {frames} --runs 1", read_run),),
            "tensors in shared memory, a pickled handle for each frame and receiver through a queue", 16),
    ucx("UCX, shared memory", "beside", "shm,self"),
    pingpong("libfabric, shared memory", "beside", "-p shm -e rdm"),
    ucx("UCX, TCP", "hosts", "tcp,self"),
    pingpong("libfabric, TCP", "hosts", "-p tcp -e msg"),
    Program("iperf3, one stream", "hosts", "iperf3", "iperf3 -s -1 -B {peer} -p {port}",
            (("iperf3 -c {peer} -p {port} -t 1 -J", read_iperf3),), "plain TCP; nothing is read or kept"),
    Program("openssl speed", "hosts", "openssl", None,
            (("openssl speed -evp aes-128-gcm -bytes 16384 -seconds 1 -mr", read_openssl),),
            "AES-128-GCM alone by one processor: what encryption costs once"),
]


@contextlib.contextmanager
def group(words, **more):
    """A program in a process group of its own, which ends with the block, and the processes that it has started."""
    process = subprocess.Popen(words, stderr=subprocess.STDOUT, text=True, start_new_session=True, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Link(typing.NamedTuple):
    """Words before a command on the sender's side and on the receiver's, and the receiver's address."""
    sender: tuple = ()
    receiver: tuple = ()
    address: str = "127.0.0.1"


@contextlib.contextmanager
def two_hosts():
    """Two network namespaces that a veth pair joins; each keeps a process, and ends with it. UCX reads /sys, and takes
    IPv6 addresses before they can be used, and a loopback device for the way to the other one. With its root, since in
    a chroot the mount namespace has another one, with another /proc."""
    with contextlib.ExitStack() as stack:
        keep = ("mount -t sysfs sysfs /sys; echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo; "
                "exec sleep 3600")
        keepers = [stack.enter_context(group(["unshare", "--net", "--mount", "sh", "-c", keep], stdout=subprocess.PIPE))
                   for _ in range(2)]
        inside = [("nsenter", "-n", "-m", "-r", "-t", str(keeper.pid)) for keeper in keepers]
        for keeper in keepers:
            keeper.stdout.readline()
        for words in ([*inside[0], "ip", "link", "add", "peer0", "type", "veth", "peer", "peer1", "netns",
                       str(keepers[1].pid)],
                      *([*words, "ip", *rest] for number, words, address in zip("01", inside, (SENDER, RECEIVER))
                        for rest in (["address", "add", f"{address}/31", "dev", f"peer{number}"],
                                     ["link", "set", f"peer{number}", "up"]))):
            done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
            if done.returncode:
                raise RuntimeError(f"{words[6]} {words[7]} for two hosts fails: {done.stderr.strip()[:200]}")
        yield Link(*inside, RECEIVER)


def has_wireplumber(env):
    with contextlib.suppress(subprocess.TimeoutExpired):  # a daemon that starts may not answer yet, and never
        return "WirePlumber" in subprocess.run(["pw-dump"], capture_output=True, text=True, timeout=PATIENCE / 6,
                                               env=env).stdout
    return False


@contextlib.contextmanager
def pipewire():
    """The environment of a daemon of its own, with the manager that links its nodes."""
    start = "pipewire & until [ -S $XDG_RUNTIME_DIR/pipewire-0 ]; do sleep 0.05; done; exec wireplumber"
    with tempfile.TemporaryDirectory(prefix="gpudirect-") as folder:
        env = {name: folder for name in ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
        with group(["dbus-run-session", "--", "sh", "-c", start], stdout=subprocess.DEVNULL, env=os.environ | env):
            deadline = time.monotonic() + PATIENCE
            while not has_wireplumber(os.environ | env):
                if time.monotonic() > deadline:
                    raise RuntimeError("PipeWire's daemon did not start in time")
                time.sleep(0.1)
            yield env


@functools.cache
def python_with_torch():
    """Debian's, or that of the PATH; None: none has torch."""
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    for python in filter(None, (sys.executable, shutil.which("python3"))):
        if subprocess.run([python, "-c", find], timeout=PATIENCE).returncode == 0:
            return python
    return None


@functools.cache
def ucx_alone():
    """Its option to run without MPI where it is built with it, as in Debian 13: else it waits to be started by mpirun.
    Elsewhere it has no such option, and gets one that it has anyway."""
    with contextlib.suppress(OSError):
        said = subprocess.run(["ucx_perftest", "-h"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE).stdout
        if "-P <0|1>" in said:
            return "-P0"
    return "-f"


def why_no_program(program):
    """None: it is installed."""
    words = [word for word in shlex.split(program.clients[0][0]) if word != "env" and "=" not in word]
    there = python_with_torch() if words[0] == "{torch}" else shutil.which(words[0])
    return None if there else f"not here: install {program.package}"


def fill_in(command, facts):
    return [re.sub(r"\{(\w+)\}", lambda match: str(facts[match[1]]), word) for word in shlex.split(command)]


def cpu_seconds():
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_client(command, read, facts, link, serving):
    """What it reads of the output, and CPU seconds, once the client has found its server."""
    deadline = time.monotonic() + RETRIES
    while True:
        before, why = cpu_seconds(), None
        with group([*link.sender, *fill_in(command, facts)], stdout=subprocess.PIPE) as client:
            try:
                text = client.communicate(timeout=PATIENCE)[0]
            except subprocess.TimeoutExpired:
                raise TimeoutError("it did not end in time") from None
        if client.returncode == 0:
            try:
                return read(text, facts["bytes"], facts["number"]), cpu_seconds() - before
            except (ValueError, LookupError, AttributeError):
                why = "its output has no figures"
        else:
            why = "it failed: " + (text.strip().splitlines() or [f"exit status {client.returncode}"])[-1][:200]
        if not serving or serving.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(why)
        time.sleep(0.1)


def run_pair(program, command, read, facts, link):
    """Figures of a server and one of its clients."""
    with contextlib.ExitStack() as stack:
        serving = stack.enter_context(group([*link.receiver, *fill_in(program.server, facts)],
                                            stdout=subprocess.DEVNULL)) if program.server else None
        found, used = run_client(command, read, facts, link, serving)
        before = cpu_seconds()
        if serving:
            with contextlib.suppress(subprocess.TimeoutExpired):
                serving.wait(SERVER_END)
    number = found.pop("number", None)
    cpu = {"sender_cpu_us": used * 1e6 / number, "receiver_cpu_us": (cpu_seconds() - before) * 1e6 / number} \
        if number else {}
    return cpu | found


def all_facts(facts, address):
    return {"peer": address, "port": 7275, "number": max(MOVED // facts["bytes"], 20),
            "torch": python_with_torch(), "ucx_alone": ucx_alone(), "folder": pathlib.Path(__file__).parent, **facts}


def run_program(program, facts, link):
    """One run: figures by name. A server that ends because a client came too early gets another one."""
    figures, facts = {}, all_facts(facts, link.address)
    for command, read in program.clients:
        deadline, found = time.monotonic() + RETRIES, None
        while found is None:
            try:
                found = run_pair(program, command, read, facts, link)
            except RuntimeError:
                if not program.server or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        figures |= found
    return figures
