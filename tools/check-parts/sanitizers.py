# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds with sanitizers. They run the suites that exercise our own code and its races: style, the guest and the tools
would find nothing new under them."""

from builds import Build

# Compiles in half the time, and runs hardly slower.
OPTIONS = ["-Db_lundef=false", "-Doptimization=1"]

# Variants of tests that run anyway, with other settings or by another path through the same code: only with --long.
VARIANTS = [
    "kill-matrix-sample", "fake-cuda-setting-*", "memory@cuda-unordered-*",
    "route@peer-self", "route@*-legacy", "route@staged-cuda-down", "route@staged-cuda-across",
    "route@rdma-host-cuda-up", "route@rdma-host-cuda-down", "route@tcp-host-cuda-up", "route@tcp-host-cuda-down",
    "route@tls-host-cuda-*",
    "process-faults-libc-*", "process-users-cuda", "process-waiting-cuda", "process-crowded-list",
    "target-lies@cuda",
]
# Tests without threads of the library's own, or that differ from another test only in the path through the code.
WITHOUT_THREADS = [
    "capture-formats", "capture-colors", "capture-controls", "capture-input", "capture-ladder", "capture-dmabuf",
    "capture-cards*", "capture-load", "memory@cuda-room", "relay@cuda_0-cuda_0-cuda_0", "relay@cuda_0-cuda_1-cuda_1",
    "route@push-cuda-across", "*@opencl*", "process-*-opencl*", "process-lines-down", "process-lines-up",
    "process-lines-across", "process-lines-own-*", "process-lines-*-cuda",
]
# The elements over TCP, models of threads, arithmetic, and OpenCL: PoCL is slow here, and each route of its own kind
# has one. Vulkan's run in the ordinary build anyway, for its validation layer.
WITHOUT_MEMORY = [
    "unit-kfd", "unit-page-race", "unit-lock", "unit-pattern", "unit-pace", "unit-gpu-calls", "unit-*-headers",
    "process-kill-cuda-self", "process-storm-cuda", "process-crowd", "process-faults-cuda-[!p]*",
    "route@staged-down*", "route@staged-across*", "route@staged-cuda-opencl", "route@staged-opencl-cuda",
    "route@*-toy*", "relay@host-opencl_0-*", "relay@opencl_0-host-*", "late@host-opencl_0-*",
    "route@map-cuda-opencl", "*@*vulkan*", "gst-*-tcp", "gst-*-tls", "target*@opencl-copies",
    "dgma-layer-firepro-[!ot]*", "distance@*-hip",
]

# Suites whose tests do the same under ASan as without it: those of it that run there do not run in the ordinary build
# as well, except of those that kill at each point, of which it tries fewer, and of Vulkan's validation layer, which its
# build lacks.
MEMORY_ALONE = ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer", "tcp"]
ALSO_WITHOUT = ["*vulkan*", "kill-matrix"]

# Without HIP, which runs CUDA's code with another table of calls.
ASAN = Build("build-asan", ["-Db_sanitize=address,undefined", *OPTIONS],
             ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer", "tcp"], without=["hip"],
             with_long=VARIANTS + WITHOUT_MEMORY, slower=5, at_once=3)
# Without OpenCL: its runtime is not built for this sanitizer, which then misses its locks and reports false races. What
# computes takes ten times as long under it, so that fewer tests run at once.
TSAN = Build("build-tsan", ["-Db_sanitize=thread", *OPTIONS],
             ["threads", "host", "cuda", "fakes", "capture", "process"],
             with_long=VARIANTS + WITHOUT_THREADS, slower=5, at_once=2)
