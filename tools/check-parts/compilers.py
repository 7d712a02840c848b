# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds with another compiler, and with link-time optimisation: for their warnings, and to run their code."""

from builds import Build

SUITES = ["unit", "conformance", "process", "plugins"]

CLANG = Build("build-clang", [], SUITES, env={"CC": "clang"}, slower=2, at_once=2)
LTO = Build("build-lto", ["--buildtype", "release", "-Db_lto=true"], SUITES, env={"CC": "gcc"}, slower=2, at_once=2)
