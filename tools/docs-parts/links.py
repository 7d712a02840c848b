# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Whether each link of a folder of pages leads to a file in it, and to an anchor in that file; and whether a page
fetches anything from elsewhere. Links to other sites are not followed."""

import html.parser
import pathlib
import re
import urllib.parse

# What a browser fetches by itself to show the page.
FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("object", "data"),
           ("source", "src")}
# doxygen's own pages link members of unnamed unions to anchors that it does not write, and its style sheet names
# pictures that it does not copy.
DOXYGEN = "api"
NOT_FETCHED = {"canonical", "index", "search", "next", "prev", "author"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        for name in ("href", "src", "data"):
            if attrs.get(name):
                fetched = (tag, name) in FETCHED and not set((attrs.get("rel") or "").split()) & NOT_FETCHED
                self.links.append((attrs[name], fetched))


def check(folder):
    """The number of pages and of links, and sentences on those that are wrong."""
    pages = {path: Page(path) for path in sorted(pathlib.Path(folder).rglob("*.html"))}
    wrong, checked = [], 0
    for path, page in pages.items():
        here = path.relative_to(folder)
        for link, fetched in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                if fetched and url.scheme not in ("data", "javascript"):
                    wrong.append(f"{here}: {link} is fetched from elsewhere")
                continue
            checked += 1
            target = path
            if url.path:
                target = (path.parent / urllib.parse.unquote(url.path)).resolve()
            if not target.exists():
                wrong.append(f"{here}: {link} is not there")
            elif url.fragment and here.parts[0] != DOXYGEN and target in pages and \
                    urllib.parse.unquote(url.fragment) not in pages[target].anchors:
                wrong.append(f"{here}: {link} has no such anchor")
    for path in sorted(path for path in pathlib.Path(folder).rglob("*.css") if path.parent.name != DOXYGEN):
        for link in re.findall(r"url\(['\"]?([^'\")]+)['\"]?\)", path.read_text()):
            if not link.startswith(("data:", "#")) and (link.startswith("/") or not (path.parent / link).exists()):
                wrong.append(f"{path.relative_to(folder)}: {link} is not there")
    return len(pages), checked, wrong
