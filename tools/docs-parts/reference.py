# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What a build says about itself, as Markdown: its elements by gst-inspect-1.0, its tools by --help, the Python package
by its documentation, the C API by doxygen."""

import ast
import copy
import json
import os
import pathlib
import re
import subprocess
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree

ELEMENTS = {"gpudirectsink": "fakesink", "gpudirectsrc": "fakesrc", "gpudirectprogramsrc": "bin"}
PROGRAMS = ["gpudirect-info", "gpudirect-bench", "gpudirect-monitor", "gpudirect-view"]
SCRIPTS = ["demo", "check", "setup", "docs", "bundle", "package"]

# Prints what Python knows of the package, for a process with the package's interpreter.
PYTHON_LISTING = """
import inspect, json, gpudirect
def doc(thing):
    return inspect.cleandoc(thing.__doc__ or "")
def signature(name, thing):
    try:
        return (name + str(inspect.signature(thing))).replace("(self, /, ", "(").replace("(self, /)", "()")
    except (TypeError, ValueError):
        return name + (getattr(thing, "__text_signature__", None) or "")
entries = []
for name in sorted(vars(gpudirect)):
    thing = getattr(gpudirect, name)
    if name.startswith("_") or inspect.ismodule(thing) or not thing.__doc__:
        continue
    if name not in getattr(gpudirect, "__all__", [name]):
        continue
    members = []
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        bases = [base for base in thing.__mro__ if base not in (tuple, object)]
        for key in sorted({key for base in bases for key in vars(base) if not key.startswith("_")}):
            member = inspect.getattr_static(thing, key)
            call = getattr(thing, key)
            if doc(member) and not isinstance(member, int):
                members.append([key, signature(key, call) if callable(call) else key, doc(member)])
    kind = ("exception" if inspect.isclass(thing) and issubclass(thing, Exception) else
            "class" if inspect.isclass(thing) else "function")
    bases = [base.__name__ for base in thing.__mro__] if inspect.isclass(thing) else []
    entries.append([kind, name, signature(name, thing), doc(thing), bases, members])
print(json.dumps([doc(gpudirect), entries]))
"""


class Stubs:
    """The types of what the package has, from its stubs."""

    def __init__(self, path):
        self.body = ast.parse(path.read_text()).body
        self.aliases = {node.targets[0].id: node.value for node in self.body if isinstance(node, ast.Assign)}
        self.classes = {node.name: node.body for node in self.body if isinstance(node, ast.ClassDef)}

    def text(self, node):
        """Of a type or arguments, with the stubs' own aliases written out."""
        aliases = self.aliases

        class WriteOut(ast.NodeTransformer):
            def visit_Name(self, name):
                return aliases.get(name.id, name)
        return ast.unparse(WriteOut().visit(copy.deepcopy(node)))

    def describe(self, name, bodies, shown=None):
        """How it is called, or what it is, by the first of these bodies that has it; None: none has."""
        for node in (node for body in bodies for node in body):
            if isinstance(node, ast.AnnAssign) and node.target.id == name:
                return f"{name}: {self.text(node.annotation)}"
            if isinstance(node, ast.FunctionDef) and node.name == name:
                if any(getattr(one, "id", "") == "property" for one in node.decorator_list):
                    return f"{name}: {self.text(node.returns)}"
                arguments = re.sub(r"^self(, /$|, |$)", "", self.text(node.args)).replace("=", " = ")
                return f"{shown or name}({arguments})" + ("" if shown else f" -> {self.text(node.returns)}")
        return None


def escape(text):
    return re.sub(r"([\\`*_<>\[\]|{}$~])", r"\\\1", text)


def block(text, language=""):
    return f"```{language}\n{text.rstrip()}\n```\n"


class Facts:
    def __init__(self, top, build, run):
        self.top, self.build, self.run = top, build, run
        self.version = re.search(r"version: '([^']+)'", (top / "meson.build").read_text()).group(1)

    def make(self):
        """The plugin, the tools and the Python package, if they are not there yet."""
        targets = json.loads(self.run(["meson", "introspect", "--targets", self.build]))
        folders = tuple(f"{self.top / name}/" for name in ("tools", "plugins"))
        files = [os.path.relpath(file, self.build) for target in targets
                 if target["defined_in"].startswith(folders) and target["build_by_default"]
                 for file in target["filename"]]
        self.run(["ninja", "-C", self.build, *files])

    def environment(self, **more):
        return os.environ | {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "100",
                             "PYTHONDONTWRITEBYTECODE": "1"} | more

    # --- elements -----------------------------------------------------------------------------------------------------

    def inspect(self, element):
        with tempfile.TemporaryDirectory() as registry:
            env = self.environment(GST_PLUGIN_PATH=str(self.build / "plugins/gst"), GST_REGISTRY=f"{registry}/registry",
                                   GST_INSPECT_NO_COLORS="1")
            return self.run(["gst-inspect-1.0", element], env=env)

    def properties(self, text):
        """Name, description, when it can change, type and default, and an enum's values."""
        found = []
        section = re.search(r"^Element Properties:\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        for entry in re.split(r"\n(?=  [a-z])", "\n" + section.group(1).rstrip()):
            match = re.match(r"\s*([a-z][\w-]*)\s*: (.*)", entry)
            if not match:
                continue
            lines = entry.strip().split("\n")[1:]
            flags = next((line.strip()[len("flags: "):] for line in lines if line.strip().startswith("flags: ")), "")
            kind = next((line.strip() for line in lines if re.match(
                r"\s+(String|Boolean|Integer|Unsigned|Enum|Boxed|Object|Double|Float|Array|GstValue)", line)), "")
            values = re.findall(r"^\s+\((-?\d+)\): (\S+)\s+- (.*)$", entry, re.MULTILINE)
            found.append((match.group(1), match.group(2).strip(), flags, kind, values))
        return found

    def element_page(self, element, parent):
        text = self.inspect(element)
        factory = text[:text.find("Plugin Details")]
        described = dict(re.findall(r"^  (Klass|Description)\s+(.*)$", factory, re.MULTILINE))
        inherited = {(name, about) for name, about, *_ in self.properties(self.inspect(parent))}
        lines = [f"# {element}", "", described["Description"] + f". Class: {described['Klass']}.", "",
                 f"This is what `gst-inspect-1.0 {element}` says of this build; [The elements](elements.md) explains "
                 "how they are used.", ""]
        lines += ["## Pads", ""]
        for direction, name, caps in re.findall(
                r"^  (SINK|SRC) template: '([^']+)'\n.*?Capabilities:\n(.*?)(?=^  S|^\S|\Z)", text,
                re.MULTILINE | re.DOTALL):
            lines += [f"`{name}` ({'input' if direction == 'SINK' else 'output'})", ""]
            for media, fields in re.findall(r"^      (\S+)\n((?:       .*\n|\n)*)", caps, re.MULTILINE):
                formats = re.search(r"format: \{(.*?)\}", fields)
                count = f", {formats.group(1).count('(string)')} formats" if formats else ""
                mode = re.search(r"interlace-mode: (\S+)", fields)
                lines.append(f"- `{media}`{count}{', interlace-mode ' + mode.group(1) if mode else ''}")
            lines.append("")
        lines += ["## Properties", ""]
        rest = []
        for name, about, flags, kind, values in self.properties(text):
            if (name, about) in inherited or name in ("name", "parent"):
                rest.append(name)
                continue
            when = ("read only" if "writable" not in flags else
                    "in NULL or READY" if "only in NULL or READY" in flags else "at any time")
            kind = re.sub(r"Default: (-?\d+), \"(.*)\"", r'Default: "\2"', kind)
            kind = re.sub(r"^Enum \"\w+\"", "Enum.", kind)
            kind = re.sub(r"(Range: .*?) Default:", r"\1. Default:", kind)
            if "read only" in when:
                kind = kind.split(" Default:")[0]
            kind = escape(kind).rstrip(".") + ". " + ("Read only." if when == "read only" else f"Set {when}.")
            lines += [f"### {name}", "", escape(about) + ".", "", kind, ""]
            lines += [f"- `{value}`: {escape(what)}" for _, value, what in values] + [""]
        lines += ["## Inherited properties", "",
                  f"Of the same meaning as in `{parent}`: " + ", ".join(f"`{name}`" for name in rest) + ".", ""]
        signals = re.findall(r'^  "([\w-]+)"( : |\s+:)', text[text.find("Element Signals"):], re.MULTILINE)
        if "Element Signals" in text and signals:
            tail = text[text.find("Element Signals"):]
            lines += ["## Signals", "", block("\n".join(
                line[2:] if line.startswith("  ") else line for line in tail.split("\n")[1:] if line.strip()))]
        return "\n".join(lines)

    # --- tools --------------------------------------------------------------------------------------------------------

    def tools_page(self):
        lines = ["# Command lines", "", "What each program prints with `--help`; [Build and install](tools.md) has "
                 "examples.", ""]
        for name in PROGRAMS:
            program = self.build / "tools" / name
            if program.exists():
                lines += [f"## {name}", "", block(self.run([program, "--help"], env=self.environment()))]
        for name in SCRIPTS:
            script = self.top / "tools" / name
            if script.exists():
                lines += [f"## ./tools/{name}", "", block(self.run([script, "--help"], env=self.environment()))]
        return "\n".join(lines)

    # --- Python -------------------------------------------------------------------------------------------------------

    def python_page(self):
        lines = ["# Python API", "", "What `help(gpudirect)` says; [gpudirect for Python](python.md) explains it.", ""]
        env = self.environment(PYTHONPATH=str(self.build / "plugins/python"))
        done = subprocess.run(["python3", "-c", PYTHON_LISTING], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["python3 does not start"])[-1]
            print(f"   without the Python package, which does not load here: {why}")
            return "\n".join(lines + ["This documentation was made by a build without the Python package.", ""])
        about, entries = json.loads(done.stdout)
        stubs = Stubs(self.build / "plugins/python/gpudirect/__init__.pyi")
        lines += [block(about)]
        for kind, title in (("class", "Classes"), ("function", "Functions"), ("exception", "Exceptions")):
            lines += [f"## {title}", ""]
            for _, name, signature, doc, bases, members in [entry for entry in entries if entry[0] == kind]:
                if kind == "exception":
                    lines += [f"- `{name}`: {escape(' '.join(doc.split()))}"]
                    continue
                lines += [f"### {name}", ""]
                typed = (stubs.describe(name, [stubs.body]) or signature if kind == "function" else
                         stubs.describe("__init__", [stubs.classes.get(name, [])], shown=name))
                if typed:
                    wrapped = textwrap.wrap(typed, 100, subsequent_indent=" " * (len(name) + 1), break_on_hyphens=False)
                    lines += [block("\n".join(wrapped), "python")]
                    doc = re.sub(r"\A\w+\(.*?\)\n\n", "", doc, flags=re.DOTALL)  # which has it without types
                lines += [block(doc)]
                inside = [stubs.classes[base] for base in bases if base in stubs.classes]
                lines += [f"- `{stubs.describe(key, inside) or member}`: {escape(' '.join(what.split()))}"
                          for key, member, what in members] + [""]
            lines.append("")
        return "\n".join(lines)

    # --- C ------------------------------------------------------------------------------------------------------------

    def write_api(self, out):
        """doxygen's pages, which link back to these."""
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            self.run(["doxygen", "-l", work / "layout.xml"])
            layout = (work / "layout.xml").read_text()
            tab = '<tab type="user" url="../index.html" title="All documentation"/>\n    <tab type="mainpage"'
            (work / "layout.xml").write_text(layout.replace('<tab type="mainpage"', tab, 1))
            (work / "main.md").write_text("# The C API {#mainpage}\n\n" + "\n".join(
                f"- {name.rsplit('/', 1)[1]}: {about}" for name, about, _ in self.headers()) + "\n")
            options = [(self.top / "core/Doxyfile").read_text(), f"OUTPUT_DIRECTORY = {work}",
                       f"LAYOUT_FILE = {work}/layout.xml", f"INPUT += {work}/main.md", "FILE_PATTERNS += *.md",
                       f"STRIP_FROM_PATH += {work}", f"USE_MDFILE_AS_MAINPAGE = {work}/main.md",
                       f"PROJECT_NUMBER = {self.version}"]
            self.run(["doxygen", "-"], cwd=self.top, input="\n".join(options) + "\n")
            out.parent.mkdir(parents=True, exist_ok=True)
            (work / "html").rename(out)

    def headers(self):
        """Of each public header its name, what it is, and its functions with their first sentence."""
        if not hasattr(self, "listed"):
            with tempfile.TemporaryDirectory() as work:
                # Warnings are those of write_api(): doxygen 1.9.4 has false ones when it writes XML alone.
                options = [(self.top / "core/Doxyfile").read_text(), f"OUTPUT_DIRECTORY = {work}", "GENERATE_HTML = NO",
                           "GENERATE_XML = YES", "WARNINGS = NO", "WARN_AS_ERROR = NO", "WARN_IF_DOC_ERROR = NO"]
                self.run(["doxygen", "-"], cwd=self.top, input="\n".join(options) + "\n")
                self.listed = [self.header(path) for path in sorted(pathlib.Path(work, "xml").glob("*_8h*.xml"))]
        return self.listed

    @staticmethod
    def header(path):
        compound = ElementTree.parse(path).getroot().find("compounddef")

        def words(element):
            return " ".join("".join(element.itertext()).split()) if element is not None else ""

        functions = []
        for member in compound.iter("memberdef"):
            if member.get("kind") == "function":
                page, anchor = re.match(r"(.*)_1(\w+)$", member.get("id")).groups()
                about = words(member.find("briefdescription")) or words(member.find("detaileddescription"))
                functions.append((member.findtext("name"), f"{page}.html#{anchor}", about))
        about = words(compound.find("briefdescription"))
        if not about:  # a header says what it is at its head, or by its first function
            about = ", ".join(f"`{name}`" for name, _, _ in functions[:3])
        return compound.find("location").get("file"), about, (path.stem + ".html", functions)

    def api_page(self):
        lines = ["# C API", "", '<a href="../api/index.html">The whole reference</a> has every struct, parameter, unit '
                 "and error, as the headers document them. These are its functions.", ""]
        for name, _, (page, functions) in self.headers():
            if not functions:
                continue
            short = name.split("include/")[-1]
            lines += [f"## {short}", "", f'<a href="../api/{page}">Structs, enums and limits</a>', ""]
            lines += [f'- <a href="../api/{link}"><code>{function}</code></a>: {escape(about)}'
                      for function, link, about in functions] + [""]
        return "\n".join(lines)

    def pages(self):
        for element, parent in ELEMENTS.items():
            yield f"reference/{element}.md", self.element_page(element, parent)
        yield "reference/commands.md", self.tools_page()
        yield "reference/python-api.md", self.python_page()
        yield "reference/c-api.md", self.api_page()
