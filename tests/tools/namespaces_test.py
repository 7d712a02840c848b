# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""gpudirect-bench --pid-namespaces in a chroot, where "/" is no mount point and mounts are shared, as systemd has them:
it finds its library, and its mounts are invisible to others; without a /proc it says so."""

import json
import os
import pathlib
import shlex
import subprocess
import tempfile

import schemas
from tool import BENCH, DEADLINE, SMALL, check, skip

# A root in a folder: this system's own files below new names, in a mount namespace that ends with the script.
ROOT = """
set -eu
cd "$1"
for name in /*; do
    [ ! -L "$name" ] || cp -P "$name" .
done
for name in /usr /etc /bin /lib /lib64 /dev "$2"; do
    if [ -d "$name" ] && [ ! -L "$name" ]; then
        mkdir -p ".$name"
        mount --rbind "$name" ".$name"
    fi
done
mkdir -p proc tmp
[ "$3" = bare ] || { mount -t proc proc proc; mount --make-shared proc; }
shift 3
status=0
chroot . "$@" || status=$?
echo "mounts on proc: $(grep -c " $PWD/proc " /proc/self/mountinfo || true)"
exit $status
"""
BUILD = pathlib.Path(os.environ["GPUDIRECT_BUILD"])
OURS = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
WAYS = [OURS, ["unshare", "--user", "--map-root-user", *OURS[1:]]]


def way_there():
    # Where the user's programs are not root's, what mounts and changes roots lies beside the PATH.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    for way in WAYS:
        done = subprocess.run([*way, "--mount-proc", "chroot", "/", "true"], capture_output=True, text=True)
        if done.returncode == 0:
            return way
    return skip(f"no mount namespace can be made here: {done.stderr.strip()}")


def bench(way, proc, status, **env):
    with tempfile.TemporaryDirectory() as folder:
        command = [BENCH, "--json", *SMALL, "--frames", "50", "--pid-namespaces"]
        done = subprocess.run([*way, "sh", "-c", ROOT, "sh", folder, str(BUILD), proc, *command], capture_output=True,
                              text=True, timeout=DEADLINE, env=os.environ | {"TMPDIR": "/tmp"} | env)
    what = f"{shlex.join(command)} ends with {done.returncode}:\n{done.stdout}{done.stderr}"
    check(done.returncode == status, what)
    said, mounts = done.stdout.rsplit("mounts on proc: ", 1)
    return said, int(mounts), done.stderr


way = way_there()
said, mounts, _ = bench(way, "mounted", 0)
result = schemas.require("bench.json", json.loads(said), "gpudirect-bench")
check(result["frames"] == 50 and result["lost"] == 0, f"{result['frames']} frames, {result['lost']} lost")
check(mounts == 1, f"{mounts} mounts on /proc are left, where there was 1")

# The loader finds nothing beside a program without a /proc.
said, mounts, err = bench(way, "bare", 1, LD_LIBRARY_PATH=str(BUILD / "core"))
check("--pid-namespaces" in err and "mount proc there" in err and not said, f"without a /proc: {err!r} {said!r}")
check(mounts == 0, f"without a /proc {mounts} are mounted")
