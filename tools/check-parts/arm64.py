# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Another processor: builds for arm64 with a cross compiler, and runs the tests under qemu-user."""

import json

import jobs
import roots

PACKAGES = ["crossbuild-essential-arm64", "qemu-user", "meson", "ninja-build", "pkg-config", "opencl-headers"]
PACKAGES += [name + ":arm64" for name in (
    "libhwloc-dev", "libssl-dev", "ocl-icd-opencl-dev", "libvulkan-dev", "libibverbs-dev", "librdmacm-dev",
    "libavahi-client-dev",
    "libgstreamer1.0-dev", "libgstreamer-plugins-base1.0-dev", "libgstreamer-plugins-bad1.0-dev", "libjson-glib-dev",
    "libxxhash-dev")]

CROSS = """[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'aarch64-linux-gnu-pkg-config'
exe_wrapper = 'qemu-aarch64'

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""

# qemu-user keeps a table of the whole address space, hence the small arena. Without `cuda`: it injects every fault into
# every call, which takes hours there.
SCRIPT = f"""cat >/root/cross.ini <<'END'
{CROSS}END
touch $OUT/testlog.json
meson setup build-arm64 --cross-file /root/cross.ini -Dwerror=true -Dtests=enabled
ninja -C build-arm64
export GPUDIRECT_LOG=error GPUD_FAKE_CUDA_ARENA=4G
meson test -C build-arm64 --no-rebuild --print-errorlogs --num-processes 2 --timeout-multiplier 10 \\
    --no-suite long --no-suite cuda --suite unit --suite host --suite process || true
cp build-arm64/meson-logs/testlog.json $OUT/testlog.json"""


def arm64(name, args):
    try:
        status, texts = roots.run("bookworm", SCRIPT, packages=PACKAGES, architectures=["amd64", "arm64"],
                                  files=["testlog.json"])
    except roots.Unavailable as why:
        return [jobs.result(name, name, "SKIP", f"skipped: {why}")]
    tests = [json.loads(line) for line in texts.get("testlog.json", "").splitlines() if line.strip()]
    return tests if status == 0 and tests else [jobs.result(name, "a build for arm64", "FAIL"), *tests]
