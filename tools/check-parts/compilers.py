# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Another compiler, and one that sees across files, for their warnings and for what they make of the code."""

from builds import Build

SUITES = ["unit", "conformance", "process", "plugins"]

CLANG = Build("build-clang", [], SUITES, env={"CC": "clang"}, slower=2)
LTO = Build("build-lto", ["--buildtype", "release", "-Db_lto=true"], SUITES, env={"CC": "gcc"}, slower=2)
