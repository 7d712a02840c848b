# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Sources of other projects, for their own tests: of a folder that GPUD_SOURCES names, else of Debian's source
packages, which apt fetches into a temporary folder. Nothing of theirs is in this repository."""

import os
import pathlib
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "check-parts"))
import roots  # noqa: E402 (in the folder above)

MINUTES = 600


class Missing(Exception):
    """The text gives the reason, and what to do."""


def given(name, path):
    """The file in GPUD_SOURCES, which holds unpacked sources, or a repository with subprojects."""
    top = pathlib.Path(os.environ["GPUD_SOURCES"])
    for folder in [*sorted(top.glob(f"{name}*")), top / "subprojects" / name, top]:
        if (folder / path).is_file():
            return folder / path
    raise Missing(f"there is no {path} of {name} in GPUD_SOURCES={top}")


class Archive:
    """This Debian's source packages, without a change of the system's list of sources."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.unpacked = {}
        self.why = None

    def apt(self, *arguments):
        state = [f"-oDir::Etc::sourcelist={self.folder}/list", "-oDir::Etc::sourceparts=/dev/null",
                 f"-oDir::State::Lists={self.folder}/lists", f"-oDir::Cache={self.folder}/cache",
                 "-oAPT::Sandbox::User=root", "-oAcquire::Retries=3"]
        done = subprocess.run(["apt-get", "-q", *state, *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=MINUTES)
        if done.returncode:
            reason = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            raise Missing(f"apt-get {arguments[0]}: {(reason or ['no answer'])[0]}; unpack the sources into a folder "
                          "and set GPUD_SOURCES to it")

    def prepare(self):
        release = dict(line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines()
                       if "=" in line)
        try:
            mirror, _ = roots.mirrors()
        except (roots.Unavailable, FileNotFoundError) as why:
            raise Missing(str(why)) from None
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "list").write_text(f"deb-src {mirror} {release['VERSION_CODENAME']} main\n")
        self.apt("update", "-oAPT::Update::Error-Mode=any")

    def source(self, package):
        """The unpacked source of a package."""
        if self.why:
            raise Missing(self.why)
        if package not in self.unpacked:
            try:
                if not (self.folder / "list").exists():
                    self.prepare()
            except Missing as why:
                self.why = str(why)
                raise
            self.apt("source", "--download-only", "--tar-only", package)
            tar = next(self.folder.glob(f"{package}_*.orig.tar.*"))
            with tarfile.open(tar) as archive:
                archive.extractall(self.folder / package)
            self.unpacked[package] = next((self.folder / package).iterdir())
        return self.unpacked[package]

    def file(self, package, name, path):
        """A file of a project, by its Debian package and its own name."""
        if os.environ.get("GPUD_SOURCES"):
            return given(name, path)
        found = self.source(package) / path
        if not found.is_file():
            raise Missing(f"{self.unpacked[package].name} has no {path}: a newer version may, in a folder that "
                          "GPUD_SOURCES names")
        return found
