#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""recipes.py [--write]: says which pages of the cookbook show other recipes than the files in pipelines/; with --write
it brings the pages up to date. A page shows a recipe as a line that names the file and its tests, and the text:

    [pipelines/send](../../../../pipelines/send), run by the test `pipeline send-receive host`:

    ```sh
    …
    ```
"""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
PAGES = TOP / "tools/docs-parts/pages"
LANGUAGES = {".py": "python", ".c": "c", ".cpp": "cpp", ".service": "ini", ".yml": "yaml", ".yaml": "yaml",
             ".json": "json"}
LINE = r"^\[(pipelines/[^\]]+)\]\(\S+\), run by the tests? (`.+`):$"
RECIPE = re.compile(rf"({LINE})\n\n```\w*\n(?:(?!```).*\n)*```$", re.MULTILINE)


def read_recipe(name):
    """Without what a reader skips: the licence, the interpreter, and words for shellcheck."""
    lines = (TOP / name).read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("#!", "# shellcheck")) and "SPDX-" not in line]
    while kept and kept[0] in ("", "#", "//"):
        kept.pop(0)
    return "\n".join(kept)


def recipes(text):
    """Of each recipe on a page: the file, and the tests that run it."""
    return [(name, re.findall(r"`([^`]+)`", tests)) for name, tests in re.findall(LINE, text, re.MULTILINE)]


def bring_up_to_date(text):
    def one(match):
        line, name = match.group(1), match.group(2)
        language = LANGUAGES.get(pathlib.Path(name).suffix, "sh")
        return f"{line}\n\n```{language}\n{read_recipe(name)}\n```" if (TOP / name).is_file() else match.group(0)

    return RECIPE.sub(one, text)


def main():
    write = sys.argv[1:] == ["--write"]
    if sys.argv[1:] and not write:
        sys.exit(__doc__.split("\n\n")[0])
    wrong = []
    for page in sorted(PAGES.rglob("*.md")):
        text, name = page.read_text(), page.relative_to(TOP)
        right = bring_up_to_date(text)
        if len(recipes(text)) != len(RECIPE.findall(text)):
            wrong.append(f"{name}: a recipe is named, and not shown")
        if text != right and write:
            page.write_text(right)
        elif text != right:
            wrong.append(f"{name}: a recipe is another one than its file: ./tools/docs-parts/recipes.py --write")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
