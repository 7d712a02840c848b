# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""tools/bundle: what it makes works with no environment, in a root where nothing is installed, and after an archive;
what it cannot do it refuses with a sentence, and then leaves what is there alone."""

import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

from tool import check

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["GPUDIRECT_BUILD"])
MEMORY = BUILD / "tests/conformance/conformance-memory"
DEADLINE = 900  # it strips, copies and compresses 25 MB; a busy machine takes minutes
# Where chroot is; a user's PATH may be without them.
os.environ["PATH"] += ":/usr/sbin:/sbin"
FRAMES = 60
CHECKSUM = re.compile(r"^\d+:\d+:\d+\.\d+ ([0-9a-f]{40})$", re.MULTILINE)


def bundle(*args, build=BUILD, status=0):
    """Both outputs of tools/bundle, which must end with this status."""
    done = subprocess.run([TOP / "tools/bundle", "--build", build, *args], capture_output=True, text=True,
                          timeout=DEADLINE)
    check(done.returncode == status, f"tools/bundle {args} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def refused(text, *args, build=BUILD):
    err = bundle(*args, build=build, status=1)[1]
    check(text in err and "Traceback" not in err, f"{args} is refused with {err!r}, which does not say {text!r}")


def run(folder, *args, env=None, inside=(), status=0):
    """A program of a bundle, without any environment but what is given."""
    done = subprocess.run([*inside, "env", "-i", *(f"{key}={value}" for key, value in (env or {}).items()),
                           str(folder / "run"), *args], capture_output=True, text=True, timeout=DEADLINE)
    check(done.returncode == status, f"run {args} ends with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def check_pipelines(folder, socket, env, inside=()):
    """One process sends, a second one receives: every frame, as it was sent."""
    command = [*inside, "env", "-i", *(f"{key}={value}" for key, value in env.items()), str(folder / "run"),
               "gst-launch-1.0", "-q"]
    caps = "video/x-raw,format=UYVY,width=320,height=180,framerate=60/1"
    sender = subprocess.Popen(
        [*command, *f"videotestsrc num-buffers={FRAMES} horizontal-speed=3 ! {caps} ! tee name=t t. ! queue !"
         f" gpudirectsink address=unix:{socket} sync=false t. ! queue ! checksumsink sync=false".split()],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        receiver = subprocess.run(
            [*command, *f"gpudirectsrc address=unix:{socket} on-disconnect=eos connection-timeout=30 !"
             " checksumsink sync=false".split()], capture_output=True, text=True, timeout=DEADLINE)
        sent, sender_err = sender.communicate(timeout=DEADLINE)
    finally:
        sender.kill()
    what = f"the sender says {sender_err!r}, the receiver {receiver.stderr!r}"
    check(sender.returncode == 0 and receiver.returncode == 0, what)
    check("/run: " not in sender_err + receiver.stderr, f"the launcher complains: {what}")
    sent, received = CHECKSUM.findall(sent), CHECKSUM.findall(receiver.stdout)
    check(len(set(sent)) > FRAMES // 4, f"{len(sent)} frames were sent, {len(set(sent))} of them different: {what}")
    check(len(sent) == FRAMES and received == sent, f"{len(received)} frames of {len(sent)} came as sent: {what}")


def check_contents(folder):
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    check(sum(path.stat().st_size for path in files.values()) <= 48_000_000, "more than 48 MB")
    check(not any(path.is_symlink() for path in folder.rglob("*")), "a symbolic link, which not every copy keeps")
    own = [f"lib/if-missing/{name}/{name}" for name in ("libibverbs.so.1", "librdmacm.so.1")]
    for name in (*(own if os.environ["GPUDIRECT_RDMA"] == "yes" else []),
                 "plugins/libgstgpudirect.so", "plugins/libgstnvcodec.so", "lib/libgpudirect.so.0",
                 "lib/libOpenCL.so.1", "lib/libgpudirect-dgma-layer.so", "lib/if-missing/libstdc++.so.6/libstdc++.so.6",
                 "bin/gpudirect-info", "bin/gpudirect-bench", "share/gpudirect/report/report.py",
                 "libexec/gst-plugin-scanner", "tests/conformance-memory",
                 "licences/gpudirect", "licences/common-licenses/LGPL-2.1"):
        check(pathlib.Path(name) in files, f"there is no {name}")
    for name in files:
        check(not re.match(r"ld-linux|lib(c|m|dl|pthread|rt|cuda|nvcuvid|pocl.*|nvidia.*)\.so", name.name),
              f"{name} is the machine's own affair")
    readme = files[pathlib.Path("README.md")].read_text()
    check("{" not in readme, "the README.md has a hole")
    packages = re.findall(r"^\| (\S+) \| \S+ \| \S+ \S+ \| (.+) \|$", readme, re.MULTILINE)
    check(len(packages) > 20, f"the README.md lists {len(packages)} packages")
    listed = {name for _, names in packages for name in names.split(", ")}
    for name in files:
        if ".so" in name.name and "gpudirect" not in name.name:
            check(name.name in listed or "of no package" in readme, f"the README.md does not list {name}")
    for package, _ in packages:
        check(pathlib.Path("licences") / package in files, f"the licence of {package} is missing")


def needs(folder):
    return dict(line.split(maxsplit=1) for line in (folder / "needs").read_text().splitlines())


def check_launcher_refuses(folder, home):
    """What `run` says on a machine that will not do: the file that it compares with is changed."""
    there = (folder / "needs").read_text()
    try:
        for change, text in ((("glibc 2", "glibc 9"), "the bundle needs 9."),
                             (("if-missing 2", "if-missing 9"), "glibc 9."),
                             (("machine ", "machine m68k-"), "the bundle is for m68k-"),
                             (("loader ", "loader /nowhere"), "so it has no glibc")):
            (folder / "needs").write_text(there.replace(*change, 1))
            err = run(folder, "gpudirect-info", env={"HOME": home, "GPUDIRECT_LIBRARIES": "own"}, status=1)[1]
            check(text in err and err.count("\n") == 1, f"run says {err!r}, not {text!r}")
        # An older machine's library is left alone.
        library, version = re.search(r"^versions (\S+?):(\S+)", there, re.MULTILINE).groups()
        for wanted, expected in ((version, False), (version + "9", True)):
            (folder / "needs").write_text(there.replace(f"{library}:{version}", f"{library}:{wanted}", 1))
            folders = run(folder, "sh", "-c", "echo $LD_LIBRARY_PATH", env={"HOME": home})[0]
            check((f"if-missing/{library}" in folders) is expected, f"{library} with {wanted}: run says {folders!r}")
    finally:
        (folder / "needs").write_text(there)
    err = run(folder, "nosuchprogram", env={"HOME": home}, status=127)[1]
    check("nosuchprogram" in err and "gpudirect-bench" in err, f"run says {err!r}")
    err = run(folder, env={"HOME": home}, status=2)[1]
    check("conformance-memory" in err, f"run without a program says {err!r}")


def empty_root(folder, scratch):
    """A root that has the bundle, glibc and busybox, and the command that goes there; or why there is none."""
    if not shutil.which("busybox"):
        return None, "busybox is not installed (busybox-static)"
    root = scratch / "root"
    for name in ("bin", "tmp", "dev", "proc"):
        (root / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    for applet in subprocess.run(["busybox", "--list"], capture_output=True, text=True).stdout.split():
        if not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    loader = pathlib.Path(needs(folder)["loader"])
    (root / loader.parent.relative_to("/")).mkdir(parents=True)
    shutil.copy(loader, root / loader.relative_to("/"))
    listing = subprocess.run(["ldd", folder / "bin/gst-launch-1.0"], capture_output=True, text=True).stdout
    libc = pathlib.Path(re.search(r"libc\.so\.6 => (\S+)", listing)[1])
    (root / libc.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
    for name in ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2"):
        shutil.copy(libc.with_name(name), root / libc.with_name(name).relative_to("/"))
    shutil.copytree(folder, root / "bundle")
    said = ""
    for way in (["unshare", "--user", "--map-root-user", "chroot", str(root)], ["chroot", str(root)]):
        done = subprocess.run([*way, "/bin/true"], capture_output=True, text=True)
        if done.returncode == 0:
            return way, None
        said = done.stderr.strip()
    return None, f"neither a user namespace nor chroot is allowed here: {said}"


with tempfile.TemporaryDirectory(prefix="gb-") as scratch:
    scratch = pathlib.Path(scratch)
    home = str(scratch / "home")
    made = scratch / "with a blank" / "bundle"
    archive = scratch / "bundle.tar.gz"

    # What it would hold, without making it.
    out, _ = bundle("-o", made, "--list")
    check("plugins/libgstgpudirect.so" in out and "libgstreamer1.0-0" in out and not made.exists(), f"--list: {out}")

    # A test's stand-in for a driver goes along, in tests/, where no program finds it that does not ask for it.
    for name in ("libamdhip64.so.5", "libamdhip64.so.7"):
        out, _ = bundle("-o", made, "--list", "--with", BUILD / "tests/hip" / name)
        check(f"tests/{name}" in out, f"--list with the HIP runtime of the tests: {out}")

    # Refusals, before there is anything and afterwards.
    refused("there is no GStreamer plugin nvcodek", "-o", made, "--plugin", "nvcodek")
    refused("is not a build folder", "-o", made, build=scratch / "nobuild")
    (scratch / "driver").mkdir()
    (scratch / "driver/libcuda.so.1").write_bytes(b"")
    refused("a driver's library", "-o", made, "--with", scratch / "driver/libcuda.so.1")
    refused("there is no such file", "-o", made, "--with", scratch / "nothing")
    refused(".tar.gz", "-o", made, "--tar", scratch / "bundle.rar")
    (scratch / "twice").mkdir()
    shutil.copy(MEMORY, scratch / "twice")
    refused("rename one", "-o", made, "--with", MEMORY, "--with", scratch / "twice" / MEMORY.name)
    refused("is not a bundle", "-o", scratch / "driver")
    check(not made.exists() and sorted(os.listdir(scratch)) == ["driver", "twice"], f"left: {os.listdir(scratch)}")

    out, _ = bundle("-o", made, "--with", MEMORY, "--tar", archive)
    check(re.search(r"-- copying \d+ files of \d+ packages .* [\d.]+ MB", out) and f"-- writing {archive}" in out,
          f"it does not say what it does: {out}")
    check(os.listdir(made.parent) == ["bundle"], f"left beside the bundle: {os.listdir(made.parent)}")
    check_contents(made)
    os.mkdir(home)
    check_launcher_refuses(made, home)
    run(made, "conformance-memory", "host", env={"HOME": home})
    if (BUILD / "tools/gpudirect-monitor").exists():
        out, _ = run(made, "gpudirect-monitor", "--version", env={"HOME": home})
        check(out.startswith("gpudirect-monitor "), f"the monitor says {out!r}")
    # The report's scripts are found, and run by the machine's Python.
    _, err = run(made, "gpudirect-bench", "--report", str(scratch / "none"), "--draw", env={"HOME": home}, status=1)
    check("report.json: No such file" in err and "Traceback" not in err, f"the report of a bundle says {err!r}")

    # Without HOME or anything else: the list of plugins goes below TMPDIR.
    check_pipelines(made, scratch / "s1", {"TMPDIR": scratch})
    check(list(scratch.glob("gpudirect-bundle-*/registry-*")), f"no registry in {os.listdir(scratch)}")
    plugins = subprocess.run(["pkg-config", "--variable=pluginsdir", "gstreamer-1.0"], capture_output=True, text=True)
    foreign = dict.fromkeys(("GST_PLUGIN_PATH", "GST_PLUGIN_SYSTEM_PATH", "GST_PLUGIN_SYSTEM_PATH_1_0"),
                            plugins.stdout.strip())
    out, _ = run(made, "gst-inspect-1.0", env={"HOME": home} | foreign)
    check("gpudirect:" in out and "playback" not in out, f"other plugins than the bundle's: {out}")
    check(list(pathlib.Path(home).glob(".cache/gpudirect-bundle/registry-*")), "no registry in the home")

    # Too much, or a failure, leaves the bundle that is there; a success replaces it.
    (made / "old").write_text("")
    (scratch / "large").write_bytes(os.urandom(1 << 20) * 40)
    refused("large 41.9 MB", "-o", made, "--with", scratch / "large")
    check((made / "old").exists() and os.listdir(made.parent) == ["bundle"], "a failure took the bundle away")
    bundle("-o", made)
    check(not (made / "old").exists() and not (made / "tests").exists(), "the old bundle was not replaced")

    # From the archive, in another place, with its own libraries alone, read-only.
    with tarfile.open(archive) as tar:
        tar.extractall(scratch / "elsewhere")
    shutil.rmtree(made)
    made = scratch / "elsewhere/bundle"
    subprocess.run(["chmod", "-R", "a-w", made], check=True)
    try:
        check_pipelines(made, scratch / "s2", {"HOME": home, "GPUDIRECT_LIBRARIES": "own"})
    finally:
        subprocess.run(["chmod", "-R", "u+w", made], check=True)

    way, why = empty_root(made, scratch)
    if way:
        out, err = run(pathlib.Path("/bundle"), "gpudirect-info", inside=way)
        check("host memory" in out and "/run: " not in err, f"gpudirect-info in an empty root: {out}{err}")
        check_pipelines(pathlib.Path("/bundle"), "/tmp/s3", {}, inside=way)
    else:
        print(f"not tried in a root where nothing is installed: {why}")
