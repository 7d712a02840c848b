# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds with sanitizers. They run the suites that exercise our own code and its races: style, the guest and the tools
would find nothing new under them."""

from builds import Build

# Compiles in half the time, and runs hardly slower; lines are all that a report needs of debugging information.
OPTIONS = ["-Db_lundef=false", "-Doptimization=1", "-Dc_args=-g1", "-Dcpp_args=-g1"]

# By default each test runs in one build: here those in which threads meet (TSAN), and of the others those that handle a
# peer's bytes or memory that ends (ASAN). `./tools/check --full` runs all of these suites in each.
RACES = [
    "route@map", "route@rdma-host", "route@tls-host", "signal@cuda",
    "process-channels", "process-epoll*", "process-exit", "process-group", "process-group-cuda", "process-handshake",
    "process-kill", "process-lines", "process-lines-cuda", "process-lines-peer", "process-lines-tcp",
    "process-lines-tls", "process-lock-holder", "process-polling", "process-replace", "process-standby",
    "process-stopped", "process-storm", "process-switch", "process-switch-cuda", "process-switch-tls",
    "process-waiting", "process-waiting-tls", "capture-stream", "capture-watch", "fake-cuda-stream",
]
# What takes three times as long under ASan, and does the same with memory as another test; arithmetic, and Vulkan,
# whose validation layer the other build has.
SAME_MEMORY = [
    "kill-matrix*", "route@[!s]*", "route@s*up", "route@staged-opencl*", "route@staged-down*", "route@staged-across*",
    "lies@cuda", "fallback@cuda", "queue@cuda", "*@*vulkan*", "relay@host-opencl_0-*", "relay@opencl_0-host-*",
    "late@host-opencl_0-*", "target*@opencl-copies", "distance@*-hip",
    "process-faults-cuda*", "process-*-cuda-peer", "process-*-integrated", "process-standby-*", "process-switch-*",
    "process-waiting-*", "process-group-*", "process-lines-*", "process-kill-*", "process-storm-*", "process-crowd",
    "dgma-layer-fork", "dgma-layer-merge-copies", "dgma-layer-firepro-*", "tcp-listen", "tcp-channel", "gst-*-tcp",
    "gst-*-tls", "fuzz-session-cuda", "fuzz-link-cuda", "fuzz-link-network", "fuzz-receiver-network", "fuzz-*-vulkan",
    "unit-kfd", "unit-page-race", "unit-lock", "unit-pattern", "unit-pace", "unit-gpu-calls", "unit-*-headers",
]
# What differs from another test in a setting, or by another path through the same code, in every build.
VARIANTS = [
    "kill-matrix-sample", "fake-cuda-setting-*", "memory@cuda-unordered-*",
    "route@peer-self", "route@*-legacy", "route@staged-cuda-down", "route@staged-cuda-across",
    "route@rdma-host-cuda-up", "route@rdma-host-cuda-down", "route@tcp-host-cuda-up", "route@tcp-host-cuda-down",
    "route@tls-host-cuda-*",
    "process-faults-libc-*", "process-users-cuda", "process-waiting-cuda", "process-crowded-list",
    "target-lies@cuda",
]

# Without OpenCL: its runtime is not built for this sanitizer, which then misses its locks and reports false races. What
# computes takes ten times as long under it, so that fewer tests run at once.
TSAN = Build("build-tsan", ["-Db_sanitize=thread", *OPTIONS],
             ["threads", "host", "cuda", "fakes", "capture", "process"], by_default=RACES, slower=5,
             at_once=2)
# Without HIP, which runs CUDA's code with another table of calls.
ASAN = Build("build-asan", ["-Db_sanitize=address,undefined", *OPTIONS],
             ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer", "tcp"], without=["hip"],
             with_full=VARIANTS + SAME_MEMORY, elsewhere={"tsan": TSAN}, slower=5, at_once=3)
