# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What sends or receives from memory to memory of one host opens no device, looks at no bus, and loads no library that
is for devices or other hosts: the elements, and a program that uses the library alone. Tried counts as done: a machine
without a GPU has no driver to open.

    lean_test.py TOOLS-JOINING
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tool import DEADLINE, SMALL, check, skip

DEVICE = re.compile("/dev/(nvidia|nvmap|dri|kfd|infiniband|dxg|video|media)")
FORBIDDEN = re.compile(
    "/sys/(bus/pci|devices/pci|class/(drm|kfd|infiniband))"
    "|/lib(cuda|nvidia-ml|amdhip64|hsa-runtime64|OpenCL|vulkan|ibverbs|rdmacm|hwloc|avahi-client|ssl|crypto|gstcuda"
    r"|gsthip|gstgl|GL|EGL|GLX|gbm|drm|X11|wayland-client|udev)(-[\d.]+)?\.so")
# A file that is named in a system call.
NAMED = re.compile(r'^\d+ +(\w+)\(.*?"([^"]*)"', re.MULTILINE)
SMALL_PICTURES = "video/x-raw,format=UYVY,width=320,height=180"
SENDING = f"videotestsrc is-live=true ! {SMALL_PICTURES} ! gpudirectsink address=unix:{{}}/link"
RECEIVING = "gpudirectsrc address=unix:{}/link num-buffers=5 ! fakesink"


@contextlib.contextmanager
def traced(log, *words):
    # Without an update of the registry, in which GStreamer looks at what plugins depend on, such as /dev/dri.
    env = os.environ | {"GST_REGISTRY_UPDATE": "no"}
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":detect_leaks=0"  # which needs what strace has taken
    # With -I 2 it hands SIGTERM on to what it traces.
    program = subprocess.Popen(["strace", "-I", "2", "-f", "-qq", "-e", "trace=%file", "-o", log, *words], env=env,
                               stdout=subprocess.DEVNULL)
    try:
        yield program
    finally:
        program.terminate()
        program.wait(DEADLINE)


def brought(files):
    """Names of what GStreamer's library of dma-bufs, which opens no device, is linked with: libdrm from 1.24 on."""
    library = next((name for name in files if "/libgstallocators-1.0.so" in name and os.path.exists(name)), None)
    return re.findall(r"^\s*(\S+) =>", subprocess.run(["ldd", library], capture_output=True, text=True,
                                                      timeout=DEADLINE).stdout, re.MULTILINE) if library else []


def look_at(what, log, expected):
    named = NAMED.findall(log.read_text(errors="replace"))
    files = [name for _, name in named]
    check(any(expected in name for name in files), f"{what}: the trace of {len(files)} files has no {expected}")
    allowed = brought(files)
    found = sorted({name for call, name in named
                    if FORBIDDEN.search(name) and os.path.basename(name) not in allowed or
                    call.startswith("open") and DEVICE.search(name)})
    check(not found, f"{what} opens, or looks for: {' '.join(found)}")
    print(f"{what}: {len(files)} names of files")


if not shutil.which("strace"):
    skip("strace is not installed (strace)")
if subprocess.run(["strace", "-f", "-qq", "-e", "trace=none", "true"], stderr=subprocess.DEVNULL).returncode != 0:
    skip("strace may not trace here (ptrace is forbidden)")

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    log = folder / "joining"
    with traced(log, sys.argv[1], *SMALL, "--join", "2", "--from", "host", "--to", "host") as program:
        check(program.wait(DEADLINE) == 0, f"tools-joining ends with {program.returncode}")
    look_at("the library", log, "libgpudirect.so")

    if not os.environ.get("GST_PLUGIN_PATH") or not shutil.which("gst-launch-1.0"):
        skip("the elements: gpudirectsink is not built, or gst-launch-1.0 is not installed (gstreamer1.0-tools)")
    if subprocess.run(["gst-inspect-1.0", "videotestsrc"], stdout=subprocess.DEVNULL, timeout=DEADLINE).returncode != 0:
        skip("the elements: GStreamer's videotestsrc is not installed (gstreamer1.0-plugins-base)")
    # Its sender is there for the first receiver and for one that joins it while it runs.
    logs = {role: folder / role for role in ("sender", "receiver", "joining receiver")}
    with traced(logs["receiver"], "gst-launch-1.0", "-q", *RECEIVING.format(folder).split()) as receiver, \
            traced(logs["sender"], "gst-launch-1.0", "-q", *SENDING.format(folder).split()):
        check(receiver.wait(DEADLINE) == 0, f"the receiver ends with {receiver.returncode}")
        with traced(logs["joining receiver"], "gst-launch-1.0", "-q", *RECEIVING.format(folder).split()) as second:
            check(second.wait(DEADLINE) == 0, f"the joining receiver ends with {second.returncode}")
    for role, log in logs.items():
        look_at(f"the {role}", log, "libgstgpudirect.so")
