# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""tools/check, tools/demo, tools/docs and tools/setup on machines that have nothing yet: a PATH of a few programs of
the shell, and of stand-ins that write down how they are called. And what check makes of a build folder that is
there."""

import argparse
import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from tool import check

TOP = pathlib.Path(__file__).resolve().parents[2]
DEADLINE = 60
SHELL = ["cat", "chmod", "date", "dirname", "env", "grep", "mkdir", "mktemp", "rm", "sed", "sh", "true"]
PYTHON_INSTALLED = 42

# Debian with nothing installed, or all of it; Python comes with apt-get, if that works.
DPKG = 'case " $INSTALLED " in *" all "*) echo "install ok installed" ;; *) exit 1 ;; esac'
APT = f"""echo "apt-get $*" >>"$LOG"
[ "$1" != "$APT_FAILS" ] || {{ echo "E: no network" >&2; exit 100; }}
[ "$1" != install ] || printf '#!/bin/sh\\necho "python3 $*" >>"$LOG"; exit {PYTHON_INSTALLED}\\n' >"$BIN/python3"
[ "$1" != install ] || chmod +x "$BIN/python3"
[ "$1" != -s ] || printf '%s\n' "NOTE: This is only a simulation!" "Inst clang (14.0 Debian:12.11 [amd64])" \
    "Inst libclang (14.0 Debian:12.11 [amd64])" "Conf clang (14.0 Debian:12.11 [amd64])"
[ "$1" != install ] || printf '%s\n' "Selecting a package" dlstatus:1:3.5:Retrieving dlstatus:2:47.1:Retrieving \
    pmstatus:clang:51.2:Installing pmstatus:dpkg-exec:100.0:Running """
APT_CACHE = """[ "$*" = "show --no-all-versions clang libclang" ] || exit 1
printf '%s\n' "Package: clang" "Size: 98200000" "Installed-Size: 392100" "Package: libclang" "Size: 1000000" \
    "Installed-Size: 1000" """
SUDO_NEVER = 'echo "nobody is not in the sudoers file." >&2; exit 1'
SUDO = 'echo "sudo" >>"$LOG"; [ "$1" != -n ] || shift; exec "$@"'


class Machine:
    """Where nothing is but a shell."""

    def __init__(self, folder, user=0, sudo=None, debian=True):
        self.bin = pathlib.Path(folder) / "bin"
        self.log = pathlib.Path(folder) / "log"
        self.bin.mkdir()
        self.log.write_text("")
        for name in SHELL:
            (self.bin / name).symlink_to(shutil.which(name))
        programs = {"id": f"echo {user}"}
        if debian:
            programs |= {"dpkg-query": DPKG, "apt-get": APT, "apt-cache": APT_CACHE}
        if sudo:
            programs["sudo"] = sudo
        for name, text in programs.items():
            (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.bin / name).chmod(0o755)

    def run(self, tool, *args, status, **env):
        """What it says on standard error, and how it called what it found."""
        self.log.write_text("")
        done = subprocess.run([TOP / "tools" / tool, *args], capture_output=True, text=True, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.bin), "BIN": str(self.bin), "LOG": str(self.log)} | env)
        check(done.returncode == status, f"{tool} {args} ends with {done.returncode}: {done.stdout}{done.stderr}")
        self.said = done.stdout
        return done.stderr, self.log.read_text().splitlines()


@contextlib.contextmanager
def machine(**kwargs):
    with tempfile.TemporaryDirectory() as folder:
        yield Machine(folder, **kwargs)


def installed(calls):
    install = [call.split() for call in calls if call.startswith("apt-get install ")]
    check(len(install) == 1, f"packages are installed {len(install)} times: {calls}")
    return {word for word in install[0][2:] if not word.startswith("-")}


def check_first_commands():
    """Neither needs what it installs: Python comes with the setup."""
    with machine() as bare:
        _, calls = bare.run("check", "--quick", status=PYTHON_INSTALLED)
        check(calls[0].startswith("apt-get update") and calls[-1] == "python3 tools/check-parts/check.py --quick",
              f"check does {calls}")
        everything = installed(calls)
    with machine() as bare:
        _, calls = bare.run("check", "--long", status=PYTHON_INSTALLED)
        check(any("mmdebstrap" in call for call in calls) and calls[-1].endswith("check.py --long"),
              f"check --long does {calls}")
        _, calls = bare.run("check", "--only", "lto", status=PYTHON_INSTALLED)
        check(installed(calls) == everything, f"check --only lto installs {installed(calls)}")
    with machine() as bare:
        _, calls = bare.run("check", "--only", "build", "--only", "debian13", status=PYTHON_INSTALLED)
        check(any("mmdebstrap" in call for call in calls) and not any("podman" in call for call in calls),
              f"check --only debian13 does {calls}")
    with machine() as bare:
        _, calls = bare.run("package", "--check", status=PYTHON_INSTALLED)
        check("mmdebstrap" in installed(calls) and calls[-1].endswith("package.py --check"), f"package does {calls}")
    with machine() as bare:
        err, _ = bare.run("package", status=1, APT_FAILS="update")
        check("as root" in err and "python3" in err, f"package without Python: {err!r}")
    with machine() as bare:
        _, calls = bare.run("setup", "demo", status=0)
        few = installed(calls)
    check(few < everything and few >= {"python3", "gstreamer1.0-plugins-base-apps"},
          "the demo does not install a part of what check does")
    with machine() as bare:
        _, calls = bare.run("setup", "docs", status=0)
        check(few < installed(calls) < everything,
              "the documentation does not install more than the demo and less than check")
    with machine() as bare:
        _, calls = bare.run("setup", status=0)
        check(installed(calls) == few, f"setup alone installs {installed(calls) - few} beside what the demo needs")
        for words in ("with what they need: 2, 99 MB to fetch, 393 MB on the disk", "   47 % fetching\n",
                      "   100 % installing\n"):
            check(words in bare.said and "Selecting" not in bare.said, f"setup does not say {words!r}: {bare.said!r}")
    check(everything - few >= {"clang", "spin", "qemu-system-x86"}, f"the demo installs all but {everything - few}")


def check_arguments():
    """Looked at before anything is installed."""
    wrong = {"check": [["--lnog"], ["quick"], ["--only"], ["--only", "all"], ["--only", "--long"], ["lto"],
                       ["--figures"], ["--figures", "--long"]],
             "demo": [["fast"], ["0"], ["-1"], ["1.5"], ["4000"], ["1", "2"], [""]],
             "docs": [["out"], ["-o"], ["-o", ""], ["-o", "out", "more"]],
             "setup": [["tests"], ["demo", "check"]]}
    with machine() as bare:
        for tool, several in wrong.items():
            for args in several:
                err, calls = bare.run(tool, *args, status=2)
                check("usage: ./tools/" + tool in err and not calls, f"{tool} {args} says {err!r} and does {calls}")
                check(len(args) > 1 or f'"{args[0]}"' in err, f"{tool} {args} is refused without its name: {err!r}")
            _, calls = bare.run(tool, "--help", status=0)
            check(not calls, f"{tool} --help does {calls}")


def check_setup():
    with machine() as there:
        err, calls = there.run("setup", status=0, INSTALLED="all")
        check(not err and not calls, f"where all is installed setup says {err!r} and does {calls}")
        for step in ("update", "install"):
            err, calls = there.run("setup", "check", status=1, APT_FAILS=step)
            check("no network" in err and "as root" in err and "qemu-system-x86" in err, f"apt-get fails: {err!r}")
    with machine(user=1000, sudo=SUDO) as there:
        _, calls = there.run("setup", status=0)
        check(calls.count("sudo") >= 2 and installed(calls), f"with sudo setup does {calls}")
    for sudo in (None, SUDO_NEVER):
        with machine(user=1000, sudo=sudo) as there:
            err, calls = there.run("setup", "demo", status=1)
            check("apt-get install" in err and "libhwloc-dev" in err and "as root" in err, f"without sudo: {err!r}")
            check("sudoers" not in err and err.count("\n") == 1 and not calls, f"without sudo: {err!r} {calls}")
    with machine(debian=False) as there:
        err, _ = there.run("setup", "demo", status=1)
        check("neither Debian 12 nor 13" in err and "libhwloc-dev" in err, f"elsewhere: {err!r}")


def check_parts():
    """What check lets through before the setup is what there is afterwards, and is done alone."""
    sys.path.insert(0, str(TOP / "tools/check-parts"))
    import check as parts
    line = [line for line in (TOP / "tools/check").read_text().splitlines() if line.startswith("parts=")]
    check(line == [f'parts="{" ".join(parts.PARTS)}"'], f"tools/check knows {line}, and there are {list(parts.PARTS)}")
    check({"build"} == set(parts.QUICK) < set(parts.ORDINARY) < set(parts.PARTS), "--quick does more than others")


def check_figures():
    """The medians of the runs of each tree, and how they compare."""
    import figures

    def run(number, fps=None):
        return {"fps": 100 * number, "latency_us": {"p50": 2 * number}, "parameters": {"fps": fps},
                "cpu_us_per_frame": {"sender": number, "receiver": 3 * number}}
    results = {"paced": {"here": [run(n, 240) for n in (9, 1, 3, 2, 8)], "old": [run(2, 240)] * 5},
               "free": {"here": [run(4)] * 5, "old": [run(5)] * 4}}
    lines = figures.table(results, ["old"]).splitlines()[2:]
    wanted = ["| paced | latency p50, us | 6.0 | 4.0 | 1.50 |",
              "| paced | sender's CPU, us a frame | 3.0 | 2.0 | 1.50 |",
              "| paced | a receiver's CPU, us a frame | 9.0 | 6.0 | 1.50 |",
              "| free | frames/s | 400.0 | 500.0 | 0.80 |",
              "| free | sender's CPU, us a frame | 4.0 | 5.0 | 0.80 |",
              "| free | a receiver's CPU, us a frame | 12.0 | 15.0 | 0.80 |",
              "| free | only 4 of 5 runs of old succeeded |"]
    check(lines == wanted, f"the table of figures is {lines}")


def runs(pid):
    """Killed with its parent, it may be a zombie that was not reaped yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def check_time_limit():
    """What is not done in time is ended with its children."""
    import jobs
    jobs.CLEAN_UP_TIME = 1
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()), \
            contextlib.redirect_stderr(io.StringIO()) as said:
        pid = pathlib.Path(folder) / "pid"
        for limit in (1, 5, 25):  # for the child to be there first, on a busy machine
            hang = "trap '' TERM; sleep 1000 & echo $! >new && mv new pid; wait"
            check(jobs.run(["sh", "-c", hang], limit=limit, cwd=folder) == 124, "what has no end ends by itself")
            if pid.exists():
                break
        child = pid.read_text().strip()
        deadline = time.monotonic() + DEADLINE
        while runs(child):
            check(time.monotonic() < deadline, "what the command started runs on")
            time.sleep(0.05)
        check("not done after" in said.getvalue(), f"the limit is not told: {said.getvalue()!r}")


def check_no_root():
    """Where nothing makes a Debian those parts are skipped, each with what to do about it."""
    import debian
    import arm64
    import package
    with machine() as bare, contextlib.redirect_stdout(io.StringIO()):
        path, os.environ["PATH"] = os.environ["PATH"], str(bare.bin)
        for part in (debian.debian12, debian.debian13, debian.debian14, arm64.arm64, package.package):
            results = part("part", None)
            check(results and all(result["result"] == "SKIP" and "apt install mmdebstrap" in result["stdout"]
                                  for result in results), f"without mmdebstrap {results}")
        os.environ["PATH"] = path


def check_build_folder():
    """One that was made without -Werror is built with it, and the compiler's words are seen. For some suites no more is
    built than they need."""
    import builds
    import jobs
    args = argparse.Namespace(quick=False, long=False)
    with tempfile.TemporaryDirectory() as folder:
        jobs.TOP = pathlib.Path(folder)
        (jobs.TOP / "meson_options.txt").write_text("option('tests', type: 'feature')\n")
        (jobs.TOP / "meson.build").write_text(
            "project('one', 'c', default_options: 'warning_level=2')\n"
            "foreach name, suite : {'one': 'some', 'two': ['some', 'long'], 'three': 'others'}\n"
            "  test(name, executable(name, 'one.c'), suite: suite)\nendforeach\n")
        (jobs.TOP / "one.c").write_text("int main(void)\n{\n    int unused_by_all;\n    return 0;\n}\n")
        for command in (["meson", "setup", "build"], ["ninja", "-C", "build"]):
            subprocess.run(command, cwd=jobs.TOP, check=True, capture_output=True, timeout=DEADLINE)
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            built = builds.build(builds.Build("build", []), args)
        check(not built and "unused_by_all" in said.getvalue(), f"without -Werror it is built: {said.getvalue()!r}")
        (jobs.TOP / "one.c").write_text("int main(void)\n{\n    return 0;\n}\n")
        some = builds.Build("some", [], ["some"])
        with contextlib.redirect_stdout(io.StringIO()):
            for build in (builds.Build("build", []), builds.Build("fresh", []), some):
                check(builds.build(build, args), "nothing is built where nothing is wrong")
            made = {file.name for file in (jobs.TOP / "some").iterdir() if file.is_file() and os.access(file, os.X_OK)}
            check(made == {"one"}, f"for one suite {made} are built")
            results = builds.test(some, "some", args)
            check([result["result"] for result in results] == ["OK"], f"of one suite {results}")


def check_new_packages():
    """What was missing when the folder was made, and was installed since, is found."""
    import builds
    import jobs
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        jobs.TOP = top = pathlib.Path(folder)
        (top / "meson_options.txt").write_text("option('tests', type: 'feature')\n")
        (top / "meson.build").write_text(
            "project('one', 'c')\nfound = meson.get_compiler('c').has_header('new.h', args: '-I' + "
            "meson.current_source_dir())\nconfigure_file(output: found ? 'found' : 'missing', configuration: {})\n")
        subprocess.run(["meson", "setup", "build"], cwd=top, check=True, capture_output=True, timeout=DEADLINE)
        check((top / "build/missing").exists(), "a header is found that is not there")
        (top / "dpkg-query").write_text(f"#!/bin/sh\ncat {top}/packages\n")
        (top / "dpkg-query").chmod(0o755)
        path, os.environ["PATH"] = os.environ["PATH"], f"{top}:{os.environ['PATH']}"
        what = builds.Build("build", [])
        (top / "new.h").touch()
        (top / "packages").write_text("libone-dev 1\n")
        check(builds.configure(what) and (top / "build/found").exists(), "the demo's folder keeps what it missed")
        (top / "build/mark").touch()
        check(builds.configure(what) and (top / "build/mark").exists(), "a folder is made anew without need")
        (top / "packages").write_text("libone-dev 2\n")
        check(builds.configure(what) and not (top / "build/mark").exists(), "a folder outlives new packages")
        os.environ["PATH"] = path


check_first_commands()
check_arguments()
check_setup()
check_parts()
check_figures()
check_time_limit()
check_no_root()
check_build_folder()
check_new_packages()
