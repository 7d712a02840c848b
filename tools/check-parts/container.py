# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The image of pipelines/container, built by podman on a fresh Debian: a sender and a receiver run in two containers
that share the folder of the sockets alone, and a third one lists the channel with its receiver."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import jobs
import roots

SUITE = "trixie"
IMAGE, BASE, VOLUME = "gpudirect-check", "localhost/gpudirect-check-base", "gpudirect-check-plant"
PATIENCE = 120
# As in compose.yaml. Limits and groups of the machine are left alone, which needs fewer rights.
ALONE = ["--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp",
         "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"]


def podman(*arguments):
    return subprocess.run(["podman", *arguments], capture_output=True, text=True, timeout=PATIENCE)


def make_base(folder):
    """A Debian with apt, from this machine's mirror, so that no other place is asked for an image."""
    roots.check_programs()
    mirror, _ = roots.mirrors()
    roots.check_machine(mirror, SUITE)
    (folder / "apt.conf").write_text(roots.apt_settings())
    command = ["mmdebstrap", "--variant=apt", "--quiet", "--skip=output/dev",
               f"--setup-hook=upload {folder / 'apt.conf'} /etc/apt/apt.conf.d/98machine", SUITE, folder / "base.tar",
               f"deb {mirror} {SUITE} main"]
    if jobs.run(command, limit=jobs.HOUR, say=f"a Debian {SUITE} for an image, by mmdebstrap",
                env=os.environ | {"TMPDIR": str(folder / "root")}) != 0:
        raise roots.Unavailable(f"no Debian {SUITE} could be made (see above)")
    if (done := podman("import", folder / "base.tar", BASE)).returncode:
        raise roots.Unavailable(f"podman takes no image: {done.stderr.strip()}")
    # A kernel or another container around this one may forbid what podman needs.
    done = podman("run", "--rm", *ALONE, BASE, "true")
    if done.returncode:
        raise roots.Unavailable(f"podman runs no container here: {' '.join(done.stderr.split())[-300:]}")


def run_both():
    """Why it does not work; None: it does."""
    for name, *command in (("send", "send", "unix:/run/plant/cam1", "host"),
                           ("receive", "receive", "unix:/run/plant/cam1", "host", "fakesink sync=true")):
        done = podman("run", "--detach", f"--name={IMAGE}-{name}", *ALONE, f"--volume={VOLUME}:/run/plant", IMAGE,
                      *command)
        if done.returncode:
            return f"{name} does not start: {done.stderr}"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done = podman("run", "--rm", *ALONE, f"--volume={VOLUME}:/run/plant", IMAGE, "gpudirect-info", "--channels",
                      "--json", "--directory", "/run/plant")
        if done.returncode == 0:
            channels = json.loads(done.stdout)["channels"]
            receivers = channels[0].get("receivers", []) if channels else []
            if any(one["route"] == "map" and one["acquired"] > 30 for one in receivers):
                return None
        time.sleep(1)
    logs = [podman("logs", f"{IMAGE}-{name}") for name in ("send", "receive")]
    return "no frames from one container to the other: " + "".join(log.stdout + log.stderr for log in logs)


def clean_up():
    for arguments in (["rm", "--force", f"{IMAGE}-send", f"{IMAGE}-receive"], ["volume", "rm", "--force", VOLUME],
                      ["rmi", "--force", IMAGE, BASE]):
        podman(*arguments)


def container(name, args):
    if not shutil.which("podman"):
        return [jobs.result(name, name, "SKIP", "skipped: there is no podman: apt install podman")]
    try:
        with tempfile.TemporaryDirectory(prefix="gpudirect-check-") as folder:
            folder = pathlib.Path(folder)
            folder.chmod(0o755)
            (folder / "root").mkdir(mode=0o777)
            make_base(folder)
        podman("volume", "create", VOLUME)
        built = jobs.succeeds(["podman", "build", "--isolation=chroot", f"--tag={IMAGE}", f"--build-arg=BASE={BASE}",
                               "--file=pipelines/container/Containerfile", "."], limit=2 * jobs.HOUR)
        results = [jobs.result(name, "the image builds", "OK" if built else "FAIL")]
        if built:
            reason = run_both()
            results.append(jobs.result(name, "two containers", "FAIL" if reason else "OK", reason or ""))
        return results
    except roots.Unavailable as why:
        return [jobs.result(name, name, "SKIP", f"skipped: {why}")]
    finally:
        clean_up()
