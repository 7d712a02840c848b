# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs a command in a fresh Debian that holds only given packages. mmdebstrap makes it, in namespaces of its own, so
that nothing of it remains, however the command ends."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import jobs

# Settings that apt needs to reach packages, passed on to the apt inside: none that name this machine's files.
PASSED_ON = re.compile(r"Acquire::(https?::(Proxy|Timeout|Pipeline-Depth|No-Cache)|"
                       r"Check-(Valid-Until|Date)|Retries|ForceIPv[46])\b(?!-)")
PROXIES = ["http_proxy", "https_proxy", "no_proxy"]
SHORT = 120


class Unavailable(Exception):
    """Such a Debian cannot be made here; the text gives the reason."""


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=SHORT).stdout


def mirrors():
    """This machine's mirrors of Debian and of its security updates; the second may be None."""
    found = {}
    targets = output_of("apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages")
    for line in targets.splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "Debian" and words[2].startswith("http"):
            found[words[1]] = words[2].rstrip("/")
    if "Debian" not in found:
        raise Unavailable("apt on this machine knows no mirror of Debian to make one from: is it Debian, and did "
                          "apt-get update run?")
    return found["Debian"], found.get("Debian-Security")


def apt_settings():
    lines = output_of("apt-config", "dump", "--format", '%F "%v";%n', "Acquire").splitlines()
    return "".join(line + "\n" for line in lines if PASSED_ON.match(line) and not line.endswith(' "";'))


def check_programs():
    for program in ("mmdebstrap", "git", "apt-get", "unshare"):
        if not shutil.which(program):
            raise Unavailable(f"there is no {program} to make a Debian with: apt install mmdebstrap git")


def check_namespaces():
    # As root mmdebstrap makes no user namespace; whether its helper does then is not documented.
    probe = ["unshare", "--mount", "--pid", "--fork", "true"] if os.geteuid() == 0 else \
        ["mmdebstrap", "--unshare-helper", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=SHORT)
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"{probe[0]} ends with {done.returncode}"
        if os.geteuid() == 0:
            raise Unavailable(f"a Debian of its own needs mounts of its own, and root cannot make them here: {said}\n"
                              "In a chroot, leave it, make its folder a mount, on the machine itself, and enter it "
                              "again:\n    mount --bind ROOT ROOT\n    mount --rbind /proc ROOT/proc\n"
                              "    mount --rbind /sys ROOT/sys\n    mount --rbind /dev ROOT/dev\n    chroot ROOT\n"
                              "In a container, start it with the capability SYS_ADMIN.")
        raise Unavailable("a Debian of its own needs root, or namespaces for users (apt install uidmap, and a line in "
                          f"/etc/subuid and /etc/subgid): {said}")


def check_mirror(mirror, suite):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=1", "-o", "APT::Sandbox::User=root",
                               "download-file", f"{mirror}/dists/{suite}/InRelease", f"{folder}/InRelease"],
                              capture_output=True, text=True, timeout=SHORT)
        if done.returncode != 0:
            reason = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no answer"]
            raise Unavailable(f"{mirror} has no {suite} for this machine: {reason[0]}")


def check_machine(mirror, suite):
    check_namespaces()
    check_mirror(mirror, suite)


@contextlib.contextmanager
def temporary_folder():
    """A folder for the user namespace's users, which have no rights here. They own what a killed mmdebstrap leaves, so
    its helper removes that."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpudirect-check-"))
    folder.chmod(0o755)
    (folder / "root").mkdir(mode=0o1777)
    (folder / "root").chmod(0o1777)
    (folder / "out").mkdir()
    try:
        yield folder
    finally:
        if os.geteuid() != 0:
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["mmdebstrap", "--unshare-helper", "find", folder / "root", "-mindepth", "1", "-delete"],
                               capture_output=True, timeout=10 * SHORT)
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            print(f"check: {folder} could not be removed", file=sys.stderr)


def clone(to):
    """The source as users get it: the committed files."""
    git = ["git", "-c", f"safe.directory={jobs.TOP}", "-c", f"safe.directory={jobs.TOP}/.git"]
    if subprocess.run([*git, "clone", "--quiet", "--no-hardlinks", jobs.TOP, to],
                      capture_output=True, timeout=SHORT).returncode != 0:
        raise Unavailable("the source is not a git repository, so it cannot be cloned into a Debian of its own")
    if output_of(*git, "-C", str(jobs.TOP), "status", "--porcelain").strip():
        print("check: what is not committed is not in the clone that is tried", file=sys.stderr)


def run(suite, script, packages=(), architectures=(), files=(), bring=None, fetch=None, limit=2 * jobs.HOUR,
        on_line=None):
    """Runs a shell script as root in a clone of the source, in a Debian with these packages, until a step fails.
    Returns the exit status, and the contents of $OUT/<name> for each of the files. `bring`: folders here, and their
    names in /root there; `fetch`: names of folders in $OUT, and folders here for their contents; `on_line` gets each
    line that is printed."""
    check_programs()
    mirror, security = mirrors()
    check_machine(mirror, suite)
    with temporary_folder() as folder:
        clone(folder / "gpudirect")
        (folder / "apt.conf").write_text(apt_settings())
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "OUT": "/root/out"}
        environment |= {name: os.environ[name] for name in PROXIES if os.environ.get(name)}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        (folder / "inside").write_text(
            f"{exports}(set -eu\ncd /root/gpudirect\n{script}\n)\necho $? >/root/out/status\n")
        folders = " ".join(["out", *(f"out/{name}" for name in fetch or {}), *(bring or {}).values()])
        hooks = [f"for name in {folders}; do mkdir -p \"$1/root/$name\"; done",
                 f"copy-in {shlex.quote(str(folder / 'gpudirect'))} /root",
                 *(f"sync-in {shlex.quote(str(here))} /root/{there}" for here, there in (bring or {}).items()),
                 f"upload {shlex.quote(str(folder / 'inside'))} /root/inside",
                 "chroot \"$1\" env -i sh /root/inside",
                 *(f"download /root/out/{name} {shlex.quote(str(folder / 'out' / name))}"
                   for name in ["status", *files]),
                 *(f"sync-out /root/out/{name} {shlex.quote(str(here))}" for name, here in (fetch or {}).items())]
        command = ["mmdebstrap", "--mode=unshare", "--variant=apt", "--format=null", "--quiet",
                   "--dpkgopt=force-unsafe-io",  # nothing of it has to outlive this machine's power
                   f"--setup-hook=upload {shlex.quote(str(folder / 'apt.conf'))} /etc/apt/apt.conf.d/98machine",
                   *(f"--customize-hook={hook}" for hook in hooks)]
        if packages:
            command.append("--include=" + ",".join(packages))
        if architectures:
            command.append("--architectures=" + ",".join(architectures))
        command += [suite, "-", f"deb {mirror} {suite} main", f"deb {mirror} {suite}-updates main"]
        command += [f"deb {security} {suite}-security main"] if security else []
        status = jobs.run(command, limit=limit, env=os.environ | {"TMPDIR": str(folder / "root")},
                          cwd=folder, stdin=subprocess.DEVNULL, on_line=on_line,
                          say=f"a Debian {suite} of its own, by mmdebstrap")
        texts = {path.name: path.read_text(errors="replace") for path in (folder / "out").iterdir()}
    return status or int(texts.pop("status", "1")), texts
