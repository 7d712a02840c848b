# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""./tools/docs: the pages come out without a warning and with every link whole; they are read and searched in a browser
without a network, also on a telephone. Each recipe of the cookbook is run by the tests that its page names, no file of
pipelines/ is without a page, and the sentences that Troubleshoot explains are those of the sources."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from browser import Browser
from tool import check, skip, wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
PARTS = TOP / "tools/docs-parts"
PAGES = PARTS / "pages"
BUILD = pathlib.Path(os.environ["GPUDIRECT_BUILD"])
NARROW, WIDE = (400, 800), (1280, 900)
# Their own README is the page, which links to their files; they have tests of their own.
FOLDERS = ["pipelines/container"]

sys.path.insert(0, str(PARTS))
import links  # noqa: E402
import recipes  # noqa: E402


def missing():
    if not shutil.which("sphinx-build") or not shutil.which("doxygen"):
        return "sphinx-build or doxygen is not installed (./tools/setup docs installs them)"
    with open(shutil.which("sphinx-build")) as script:  # its Python may be another one than that of the tests
        interpreter = script.readline().removeprefix("#!").split()
    for module in ("furo", "myst_parser"):
        if subprocess.run([*interpreter, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode != 0:
            return f"Python's {module} is not installed (./tools/setup docs installs it)"
    return Browser.missing


def check_recipes():
    built = json.loads(subprocess.run(["meson", "introspect", "--tests", BUILD], capture_output=True, text=True,
                                      check=True).stdout)
    commands = {test["name"]: test["cmd"] for test in built}
    shown = set()
    listed = [(page.name, *recipe) for page in sorted(PAGES.rglob("*.md"))
              for recipe in recipes.recipes(page.read_text())]
    for page, name, tests in listed:
        shown.add(name)
        check((TOP / name).is_file(), f"{page}: there is no {name}")
        check(tests, f"{page}: {name} names no test")
        for test in tests:
            check(test in commands, f"{page}: {name} is said to be run by {test}, which is no test")
            scripts = [pathlib.Path(word).resolve() for word in commands[test] if word.startswith(f"{TOP}/")]
            said = " ".join(commands[test]) + "".join(path.read_text(errors="replace") for path in scripts
                                                      if path.is_file() and TOP / "tests" in path.parents)
            base = re.escape(name.rsplit("/", 1)[1].removesuffix(".c"))
            # The files for systemd are all copied by a pattern.
            patterns = [rf"(?<![\w-]){base}(?![\w-])"] + ([r"gpudirect-\*@\.service"] if "@.service" in name else [])
            check(any(re.search(pattern, said) for pattern in patterns), f"{page}: {test} does not run {name}")
    text = "".join(page.read_text() for page in PAGES.rglob("*.md"))
    for path in sorted((TOP / "pipelines").rglob("*")):
        name = str(path.relative_to(TOP))
        if path.is_file() and not name.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
            check(name in shown or f"/{name})" in text, f"{name} is on no page of the cookbook")
    print(f"{len(shown)} recipes, each run by a test")


def check_sentences():
    """What stands as code in front of an explanation is said by a program, apart from what differs each time (…)."""
    said = ""
    for folder in ("core", "plugins", "tools"):
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in (".c", ".h"):
                said += re.sub(r'"\s*(?:PRI\w+\s*)?"', "", path.read_text()).replace('\\"', '"')
            elif path.is_file() and not path.suffix and path.parent == TOP / "tools":
                said += path.read_text()
    sentences = re.findall(r"^`([^`\n]+)`\n: ", (PAGES / "troubleshoot.md").read_text(), re.MULTILINE)
    check(len(sentences) > 25, f"Troubleshoot has {len(sentences)} sentences")
    for sentence in sentences:
        for part in sentence.split("…"):
            check(len(part.strip()) < 4 or part.strip() in said, f"Troubleshoot: no program says {part.strip()!r}")
    print(f"{len(sentences)} sentences of Troubleshoot are said by a program")


def check_broken(folder):
    """Links that lead nowhere are found."""
    (folder / "other.html").write_text('<p id="there">')
    (folder / "page.html").write_text('<a href="other.html#there"></a><a href="other.html#gone"></a>'
                                      '<a href="no.html"></a><a href="https://example.org/">'
                                      '<script src="https://example.org/x.js"></script>')
    wrong = links.check(folder)[2]
    check(len(wrong) == 3 and all(any(word in line for line in wrong) for word in ("#gone", "no.html", "x.js")),
          f"of broken links these are found: {wrong}")


def build(out):
    done = subprocess.run([sys.executable, PARTS / "build.py", "--built", BUILD, out], capture_output=True, text=True,
                          timeout=400, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout + done.stderr


def check_pages(out):
    """As they are read from the disk: nothing is wider than the screen, and the search finds."""
    browser = Browser()
    try:
        for width, height in (WIDE, NARROW):
            browser.resize(width, height)
            for name in ("index", "cookbook/record", "understand/latency", "understand/routes",
                         "reference/gpudirectsrc", "reference/commands", "troubleshoot", "results"):
                browser.open(f"file://{out}/{name}.html")
                wide = browser.run("return document.documentElement.scrollWidth")
                check(wide <= width, f"{name}.html is {wide} pixels wide on a screen of {width}")
                check(browser.run("return [...document.images].every(i => i.complete && i.naturalWidth > 0)"),
                      f"{name}.html has a picture that is not shown")
        browser.resize(*WIDE)
        browser.open(f"file://{out}/search.html?q=backup-address")
        found = wait_for("results of the search", lambda: browser.run(
            "return document.querySelectorAll('#search-results li a').length"))
        print(f"the search finds {found} pages for backup-address")
        bad = [line for line in browser.log_lines() if "favicon" not in line]
        check(not bad, f"the browser says {bad}")
    finally:
        browser.close()


reason = missing()
if reason:
    skip(reason)
check_sentences()
check_recipes()
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    check_broken(folder)
    status, text = build(folder)
    check(status != 0 and "holds something else" in text and (folder / "page.html").exists(),
          f"a folder that is not the documentation's is written into: {text}")
    out = folder / "site"
    out.mkdir()
    (out / "searchindex.js").touch()  # documentation that was built before
    (out / "old.html").touch()
    status, text = build(out)
    check(status == 0, f"build.py ends with {status}: {text}")
    print(text)
    for name in ("index", "reference/gpudirectsink", "reference/python-api", "reference/c-api", "api/index"):
        check((out / f"{name}.html").exists(), f"there is no {name}.html")
    check("gpud_sender_submit_lines" in (out / "reference/c-api.html").read_text(), "the C API lacks functions")
    check("wait-for-connection" in (out / "reference/gpudirectsink.html").read_text(), "gpudirectsink lacks a property")
    api = html.unescape(re.sub(r"<[^>]*>", "", (out / "reference/python-api.html").read_text()))
    for text in ("slow_receiver: Literal['block', 'drop-newest', 'drop-oldest'] | None = None",
                 "acquire(timeout: float | None = None) -> Frame", "shape: tuple[int, ...]",
                 "devices() -> list[dict[str, Any]]", "frames: tuple[Frame | None, ...]"):
        check(text in " ".join(api.split()), f"the Python API lacks {text}")
    check(not (out / "old.html").exists(), "a page of an older documentation is left")
    check_pages(out)
