# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The image of pipelines/container, built on a fresh Debian by podman without root's rights, and compose.yaml run by
podman-compose: a sender and a receiver in two containers that share the folder of the sockets alone, and a third one
that lists the channel with its receiver. Root makes a user for this, and removes it again."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import jobs
import roots

SUITE = "trixie"
IMAGE, BASE, PROJECT = "localhost/gpudirect", "localhost/gpudirect-check-base", "gpudirect-check"
PATIENCE = 120
# As in compose.yaml, for containers that are started one by one.
ALONE = ["--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp"]
# Left to the machine, which needs fewer rights, and works where there is no systemd.
CGROUPS = "--cgroups=disabled"
# crun takes no mixture of control groups of versions 1 and 2. A mount namespace has version 2 alone.
UNIFIED = ["unshare", "--mount", "--propagation=private", "sh", "-c",
           'umount -R -l /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"', "sh"]

# podman-compose 1.0.3 of Debian 12 joins a network of its own beside "network_mode: none", which podman refuses.
PODMAN = """#!/bin/sh
alone=
case " $* " in *" --network none "*) alone=yes ;; esac
left=$#
while [ "$left" -gt 0 ]; do
    word=$1 left=$((left - 1))
    shift
    case $alone$word in
    yes--net | yes--network-alias) shift && left=$((left - 1)) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec podman "$@"
"""


class Rootless:
    """Runs podman as a user without rights, in a home of its own, so that the user's own containers are left alone."""

    def __init__(self, folder):
        self.home, self.runtime, self.source = folder / "home", folder / "run", folder / "source"
        self.config, self.podman = self.home / ".config/containers", folder / "podman"
        self.user, self.prefix = None, []

    def prepare(self):
        roots.clone(self.source)
        if os.geteuid() != 0:
            self.home.mkdir()
        else:
            name = f"gpudirect-{os.getpid()}"
            done = subprocess.run(["useradd", f"--home-dir={self.home}", "--create-home", "--user-group", name],
                                  capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode:
                raise roots.Unavailable(f"no user could be made to run podman without root: {done.stderr.strip()}")
            self.user = name
            self.prefix = [] if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() else list(UNIFIED)
            self.prefix += ["setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups"]
        self.podman.write_text(PODMAN)
        self.podman.chmod(0o755)
        self.runtime.mkdir(mode=0o700)
        self.config.mkdir(parents=True)
        if self.user:
            for path in (self.runtime, self.config.parent, self.config):
                shutil.chown(path, self.user, self.user)
        known = {"HOME": self.home, "XDG_RUNTIME_DIR": self.runtime, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                 "LANG": "C.UTF-8"}
        known |= {name: os.environ[name] for name in roots.PROXIES if os.environ.get(name)}
        self.prefix += ["env", "-i", *(f"{name}={value}" for name, value in known.items())]
        self.choose_storage()

    def choose_storage(self):
        """vfs copies the whole image for each container, so it is the last choice."""
        for driver in ("overlay", "vfs"):
            (self.config / "storage.conf").write_text(f'[storage]\ndriver = "{driver}"\n')
            done = self.call("podman", "info")
            if done.returncode == 0:
                return
        raise roots.Unavailable(f"podman does not start without root's rights: {' '.join(done.stderr.split())[-300:]}")

    def call(self, *words, timeout=PATIENCE):
        return subprocess.run([*self.prefix, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                              cwd=self.source)

    def build(self):
        return jobs.succeeds([*self.prefix, "podman", "build", "--isolation=chroot", f"--tag={IMAGE}",
                              f"--build-arg=BASE={BASE}", "--file=pipelines/container/Containerfile", "."],
                             limit=2 * jobs.HOUR, cwd=self.source, say="podman build, without root's rights")

    def compose(self, *words):
        return self.call("podman-compose", f"--project-name={PROJECT}", "--file=pipelines/container/compose.yaml",
                         f"--podman-path={self.podman}", f"--podman-run-args={CGROUPS}", *words)

    def end(self):
        """Removes what belongs to users of the namespace, ends the process that keeps it, and removes the user."""
        if self.config.exists():
            self.call("podman", "rm", "--all", "--force")
            self.call("podman", "unshare", "rm", "-rf", self.home / ".local", timeout=10 * PATIENCE)
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.runtime / "libpod/tmp/pause.pid").read_text()), signal.SIGKILL)
        if self.user:
            done = subprocess.run(["userdel", "--force", self.user], capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode:
                print(f"check: the user {self.user} could not be removed: {done.stderr.strip()}", flush=True)


def make_base(folder, podman):
    """A Debian with apt, from this machine's mirror, so that no other place is asked for an image."""
    mirror, _ = roots.mirrors()
    roots.check_machine(mirror, SUITE)
    (folder / "root").mkdir(mode=0o777)
    (folder / "apt.conf").write_text(roots.apt_settings())
    command = ["mmdebstrap", "--variant=apt", "--quiet", "--skip=output/dev", "--dpkgopt=force-unsafe-io",
               f"--setup-hook=upload {folder / 'apt.conf'} /etc/apt/apt.conf.d/98machine", SUITE, folder / "base.tar",
               f"deb {mirror} {SUITE} main"]
    if jobs.run(command, limit=jobs.HOUR, say=f"a Debian {SUITE} for an image, by mmdebstrap",
                env=os.environ | {"TMPDIR": str(folder / "root")}) != 0:
        raise roots.Unavailable(f"no Debian {SUITE} could be made (see above)")
    (folder / "base.tar").chmod(0o644)
    done = podman.call("podman", "import", folder / "base.tar", BASE, timeout=10 * PATIENCE)
    if done.returncode:
        raise roots.Unavailable(f"podman takes no image: {' '.join(done.stderr.split())[-300:]}")
    # A kernel or another container around this one may forbid what podman needs.
    done = podman.call("podman", "run", "--rm", *ALONE, CGROUPS, BASE, "true")
    if done.returncode:
        raise roots.Unavailable("podman runs no container without root's rights here: "
                                f"{' '.join(done.stderr.split())[-300:]}")


def run_both(podman):
    """Why compose.yaml does not work; None: it does."""
    begun = podman.compose("up", "--detach")  # some versions end with 0 whatever happens
    if begun.returncode:
        return f"podman-compose up: {begun.stdout}{begun.stderr}"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done = podman.call("podman", "run", "--rm", *ALONE, CGROUPS, f"--volume={PROJECT}_plant:/run/plant", IMAGE,
                           "gpudirect-info", "--channels", "--json", "--directory", "/run/plant")
        if done.returncode == 0:
            channels = json.loads(done.stdout)["channels"]
            receivers = channels[0].get("receivers", []) if channels else []
            if any(one["route"] == "map" and one["acquired"] > 30 for one in receivers):
                return None
        time.sleep(1)
    logs = podman.compose("logs")
    said = "".join(one.stdout + one.stderr for one in (begun, done, logs))
    return f"no frames from one container to the other: {said}"


def container(name, args):
    for program, package in (("podman", "podman"), ("podman-compose", "podman-compose"), ("newuidmap", "uidmap")):
        if not shutil.which(program):
            return [jobs.result(name, name, "SKIP", f"skipped: there is no {program}: apt install {package}")]
    with tempfile.TemporaryDirectory(prefix="gpudirect-check-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        podman = Rootless(folder)
        try:
            roots.check_programs()
            podman.prepare()
            make_base(folder, podman)
            built = podman.build()
            results = [jobs.result(name, "the image builds, rootless", "OK" if built else "FAIL")]
            if built:
                reason = run_both(podman)
                results.append(jobs.result(name, "compose.yaml, rootless", "FAIL" if reason else "OK", reason or ""))
            return results
        except roots.Unavailable as why:
            return [jobs.result(name, name, "SKIP", f"skipped: {why}")]
        finally:
            podman.end()
