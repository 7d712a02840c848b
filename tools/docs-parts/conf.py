# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Sphinx's configuration. build.py says where the sources are and which version this is."""

import os

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
suppress_warnings = ["misc.highlighting_failure"]  # recipes in languages that have no highlighter
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
