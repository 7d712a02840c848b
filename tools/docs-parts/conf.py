# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Sphinx's configuration, and a directive of our own:

    ```{recipe} pipelines/send       shows a file, and the tests that run it
    :test: pipeline send-receive host
    ```

build.py says where the sources are and which version this is."""

import os
import pathlib

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

TOP = pathlib.Path(__file__).resolve().parents[2]
LANGUAGES = {".py": "python", ".c": "c", ".service": "ini", ".yml": "yaml", ".yaml": "yaml", ".json": "json"}

project = "gpudirect"
author = "gpudirect authors"
copyright = "gpudirect authors, LGPL-2.1-or-later. Not affiliated with NVIDIA or AMD"  # noqa: A001
version = release = os.environ.get("GPUDIRECT_VERSION", "")

extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
highlight_language = "none"
smartquotes = False
nitpicky = True
exclude_patterns = []

html_theme = "furo"
html_title = f"gpudirect {version}"
html_static_path = ["static"]
html_css_files = ["gpudirect.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it fetches pages, which a browser refuses for those from a disk
html_theme_options = {"navigation_with_keys": True}


def read_recipe(path):
    """Without what a reader skips: the licence, the interpreter, and words for shellcheck."""
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#!", "# shellcheck")) and "SPDX-" not in line]
    while kept and kept[0] in ("", "#"):
        kept.pop(0)
    return "\n".join(kept)


class Recipe(SphinxDirective):
    required_arguments = 1
    option_spec = {"test": directives.unchanged_required}

    def run(self):
        name = self.arguments[0]
        tests = [test.strip() for test in self.options.get("test", "").split(",") if test.strip()]
        path = TOP / name
        if not path.is_file():
            raise self.error(f"there is no recipe {name}")
        self.env.note_dependency(str(path))
        code = read_recipe(path)
        block = nodes.literal_block(code, code, language=LANGUAGES.get(path.suffix, "sh"), force=True)
        caption = nodes.caption("", "", nodes.literal("", name))
        shown = nodes.container("", caption, block, literal_block=True, classes=["literal-block-wrapper", "recipe"])
        result = [shown]
        if tests:
            line = nodes.paragraph(classes=["tested"])
            line += nodes.Text("Run by " + ("the test " if len(tests) == 1 else "the tests "))
            for number, test in enumerate(tests):
                line += nodes.Text(", " if number else "")
                line += nodes.literal("", test)
            line += nodes.Text(".")
            result.append(line)
        return result


def setup(app):
    app.add_directive("recipe", Recipe)
    return {"parallel_read_safe": True}
