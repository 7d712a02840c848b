# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""pip install --no-build-isolation ./plugins/python: against the libgpudirect that pkg-config finds. Meson builds the
same package with the library."""

import glob
import os
import shlex
import subprocess
import sys
import tempfile

import setuptools


def pkg_config(what):
    program = os.environ.get("PKG_CONFIG", "pkg-config")
    try:
        done = subprocess.run([program, what, "gpudirect"], check=True, capture_output=True, text=True)
        return shlex.split(done.stdout)
    except (OSError, subprocess.CalledProcessError):
        sys.exit("pkg-config does not find gpudirect: build and install the library first (meson setup build && "
                 "meson install -C build), or set PKG_CONFIG_PATH to where its gpudirect.pc is")


# The library's folder is kept in the extension where the system does not search it.
libraries = pkg_config("--libs")
folders = [flag[2:] for flag in libraries if flag.startswith("-L")]

made = tempfile.TemporaryDirectory()  # pip builds in the clone, which stays as it is
setuptools.setup(
    packages=["gpudirect"],
    package_data={"gpudirect": ["py.typed", "*.pyi"]},
    ext_modules=[setuptools.Extension(
        "gpudirect._gpudirect", sorted(glob.glob("*.c")), depends=sorted(glob.glob("*.h")), py_limited_api=True,
        define_macros=[("Py_LIMITED_API", "0x030b0000"), ("_GNU_SOURCE", None)],
        extra_compile_args=["-std=gnu11", "-fvisibility=hidden", "-pthread", *pkg_config("--cflags")],
        extra_link_args=[*libraries, "-pthread", *(f"-Wl,-rpath,{folder}" for folder in folders)])],
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "build": {"build_base": made.name},
             "egg_info": {"egg_base": made.name}})
