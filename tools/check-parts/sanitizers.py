# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds with sanitizers. They run the suites that exercise our own code and its races: style, the guest and the tools
would find nothing new under them."""

from builds import Build

# Compiled in half the time, and hardly slower.
OPTIONS = ["-Db_lundef=false", "-Doptimization=1"]

# Without HIP, which is the code that CUDA runs, over another table of calls.
ASAN = Build("build-asan", ["-Db_sanitize=address,undefined", *OPTIONS],
             ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer"], without=["hip"], slower=5)
# Without OpenCL: its runtime is not built for this sanitizer, which then misses its locks and reports false races.
TSAN = Build("build-tsan", ["-Db_sanitize=thread", *OPTIONS],
             ["threads", "host", "cuda", "fakes", "capture", "process"], slower=5)
