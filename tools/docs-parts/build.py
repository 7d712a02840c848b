#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""build.py [--built] BUILD OUT: the documentation of the build BUILD, as pages in OUT. ./tools/docs calls it.

One folder of Markdown is put together for Sphinx: pages/ as it lies, the READMEs of the folders, and what reference.py
writes. In all of them a link is one that works in the repository; here it leads to the page made from that file, to a
copy of the file, or, of a folder, to none."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import links
import reference

PARTS = pathlib.Path(__file__).resolve().parent
TOP = PARTS.parents[1]
PAGES = PARTS / "pages"

# READMEs that are pages of the site.
INCLUDED = {
    "plugins/gst/README.md": "reference/elements.md",
    "plugins/python/README.md": "reference/python.md",
    "plugins/rust/README.md": "reference/rust.md",
    "plugins/dgma-layer/README.md": "reference/dgma-layer.md",
    "plugins/obs/README.md": "reference/obs.md",
    "tools/README.md": "reference/tools.md",
    "pipelines/container/README.md": "cookbook/containers.md",
    "core/NEWS.md": "reference/news.md",
    "core/README.md": "understand/core.md",
    "core/SECURITY.md": "understand/security.md",
    "tests/README.md": "understand/tests.md",
    ".github/CONTRIBUTING.md": "understand/contributing.md",
}
PICTURES = TOP / "tools/pictures"
RESULTS = TOP / "tools/results"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
BACK = re.compile(r"^Back to the \[README\]\([^)]*\)\.\s*", re.MULTILINE)


class Failed(Exception):
    pass


def run(command, **kwargs):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **kwargs)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ends with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Site:
    def __init__(self, source):
        self.source = source
        self.copied = set()  # files of the repository that pages link to
        self.place = {TOP / name: source / page for name, page in INCLUDED.items()}
        self.place |= {path: source / path.relative_to(PAGES) for path in PAGES.rglob("*.md")}
        self.place[TOP / "README.md"] = source / "index.md"

    def write(self, page, text):
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)

    def rewrite(self, text, origin, page):
        """The links of a page that came from the file `origin`."""
        up = "../" * len(page.relative_to(self.source).parent.parts)

        def one(match):
            picture, words, target = match.groups()
            if "://" in target or target.startswith(("#", "mailto:")):
                return match.group(0)
            path, _, anchor = target.partition("#")
            file = pathlib.Path(os.path.normpath(origin.parent / path))
            anchor = f"#{anchor}" if anchor else ""
            if file in self.place:
                return f"[{words}]({os.path.relpath(self.place[file], page.parent)}{anchor})"
            if file.is_dir():
                return words
            if file.parent.parent == RESULTS and file.is_file():  # that page is part of the report's, which is here
                place = f"{up or './'}results-of/{file.parent.name}"
                return (f'<img src="{place}/{file.name}" alt="{words}">' if picture else
                        f'<a href="{place}/index.html">{words}</a>')
            if file.is_relative_to(PAGES):  # a page that is generated; Sphinx says if it is not
                return f"[{words}]({os.path.relpath(self.source / file.relative_to(PAGES), page.parent)}{anchor})"
            if picture:
                if file.parent != PICTURES or not file.exists():
                    raise Failed(f"{origin.relative_to(TOP)}: there is no picture {target}")
                return f"![{words}]({up or './'}pictures/{file.name})"
            if not file.is_file():
                raise Failed(f"{origin.relative_to(TOP)}: {target} is not there")
            self.copied.add(file)
            return f'<a href="{up}files/{file.relative_to(TOP)}.txt">{words}</a>'

        # Not in blocks of code, which are fenced or four columns in.
        parts, fence = [[]], None
        for line in text.split("\n"):
            mark = re.match(r" {0,3}(```+|:::+)", line)
            code = fence is not None or mark is not None or line.startswith("    ")
            if mark and fence is None:
                fence = mark.group(1)
            elif mark and line.strip() == fence:
                fence = None
            if code != (len(parts) % 2 == 0):  # prose and code take turns
                parts.append([])
            parts[-1].append(line)
        return "\n".join("\n".join(part) if number % 2 else LINK.sub(one, "\n".join(part))
                         for number, part in enumerate(parts))

    def contents(self, origin):
        """What an index page leads to, in its order: the pages of its folder, and the index pages below it. Sphinx
        takes them from a directive, which a page would show where nothing but Markdown is read."""
        page, pages = self.place[origin], []
        for _, _, target in LINK.findall(origin.read_text()):
            file = pathlib.Path(os.path.normpath(origin.parent / target.partition("#")[0]))
            to = self.place.get(file, self.source / file.relative_to(PAGES) if file.is_relative_to(PAGES) else page)
            inside = to.parent == page.parent or (to.name == "index.md" and to.parent.parent == page.parent)
            if inside and to.suffix == ".md" and to != page and to not in pages:
                pages.append(to)
        names = "\n".join(str(to.relative_to(page.parent).with_suffix("")) for to in pages)
        return f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"

    def add(self, origin):
        page = self.place[origin]
        text = self.rewrite(BACK.sub("", origin.read_text()), origin, page)
        self.write(page, text + (self.contents(origin) if page.name == "index.md" else ""))

    def copy_files(self, out):
        for file in self.copied:
            copy = out / "files" / f"{file.relative_to(TOP)}.txt"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def write_results(site, out):
    """A page of what `gpudirect-bench --report` wrote on several machines: a folder each, with an index.html."""
    text = (PAGES / "results.md").read_text()
    reports = sorted(path.parent for path in RESULTS.glob("*/index.html"))
    rows = []
    for report in reports:
        shutil.copytree(report, out / "results-of" / report.name)
        html = (report / "index.html").read_text()
        title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
        rows.append(f'- <a href="results-of/{report.name}/index.html">{report.name}</a>'
                    + (f": {reference.escape(' '.join(title.group(1).split()))}" if title else ""))
    page = site.place[PAGES / "results.md"]
    site.write(page, site.rewrite(re.sub(r"^Reports lie in .*$", "\n".join(rows), text, flags=re.MULTILINE),
                                  PAGES / "results.md", page))


def complete_theme(html):
    """Debian's furo takes a style sheet from a web server's folder, and its script imports another, which browsers
    refuse for pages from a disk: both are put in their place."""
    sheet = html / "_static/styles/furo.css"
    sheet.write_text(re.sub(r"@import url\(/(javascript/[^)]+)\);",
                            lambda match: pathlib.Path("/usr/share", match.group(1)).read_text(), sheet.read_text()))
    script = html / "_static/scripts/furo.js"
    text, count = re.subn(r"^import .* from \"./gumshoe-patched.js\";\n", "", script.read_text(), flags=re.MULTILINE)
    if count:
        script.write_text(script.with_name("gumshoe-patched.js").read_text() + text)
        for page in html.rglob("*.html"):
            page.write_text(re.sub(r'<script type="module"( src="[^"]*/furo.js)', r"<script defer\1", page.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--built", action="store_true", help="take the build as it is")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    build, out = args.build.resolve(), args.out.resolve()
    if not shutil.which("sphinx-build") or not shutil.which("doxygen"):
        raise Failed("sphinx-build or doxygen is missing: ./tools/setup docs installs them")
    if out.exists() and any(out.iterdir()) and not (out / "searchindex.js").exists():
        raise Failed(f"{out} is there, and holds something else than this documentation: choose another folder")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        site = Site(work / "source")
        fresh = work / "site"
        fresh.mkdir()

        facts = reference.Facts(TOP, build, run)
        if not args.built:
            print("-- building what describes itself", flush=True)
            facts.make()

        print("-- reference: elements, tools, Python, C", flush=True)
        for origin in list(site.place):
            if origin not in (TOP / "README.md", PAGES / "results.md"):
                site.add(origin)
        for page, text in facts.pages():
            site.write(site.source / page, text)
        facts.write_api(fresh / "api")
        write_results(site, fresh)
        shutil.copytree(PICTURES, site.source / "pictures")
        site.copy_files(fresh)

        print("-- pages", flush=True)
        run(["sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "-c", PARTS, "-d", work / "doctrees",
             site.source, work / "html"],
            env=os.environ | {"GPUDIRECT_VERSION": facts.version, "PYTHONDONTWRITEBYTECODE": "1"})
        complete_theme(work / "html")
        shutil.copytree(work / "html", fresh, dirs_exist_ok=True)

        print("-- links", flush=True)
        pages, checked, wrong = links.check(fresh)
        if wrong:
            raise Failed("\n".join(wrong))
        if out.exists():
            shutil.rmtree(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(fresh, out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"   {pages} pages, {checked} links, {size / 1e6:.1f} MB: {out}/index.html")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"docs: {failed}")
