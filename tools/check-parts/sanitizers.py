# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds with sanitizers. They run the suites that exercise our own code and its races: style, the guest and the tools
would find nothing new under them."""

from builds import Build

# For each PCI device hwloc reads the names of all makers and models into a list that grows by a few at a time. Where
# allocations are watched that takes every process more than a second, which is most of what the suites took.
TEST_ENV = {"HWLOC_PLUGINS_BLACKLIST": "hwloc_pci.so"}

# Compiled in half the time, and hardly slower.
OPTIONS = ["-Db_lundef=false", "-Doptimization=1"]

ASAN = Build("build-asan", ["-Db_sanitize=address,undefined", *OPTIONS],
             ["unit", "conformance", "process", "fuzz", "fakes", "capture", "dgma-layer"],
             test_env=TEST_ENV, slower=5)
# Without OpenCL: its runtime is not built for this sanitizer, which then misses its locks and reports false races.
TSAN = Build("build-tsan", ["-Db_sanitize=thread", *OPTIONS],
             ["unit", "host", "cuda", "fakes", "capture", "process"], test_env=TEST_ENV, slower=5)
