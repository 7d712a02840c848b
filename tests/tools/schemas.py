# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the tools print as JSON, against its description in tools/schema, by two validators. Without jsonschema (Debian:
python3-jsonschema) nothing is compared; the test tools-schema says so."""

import functools
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None
try:
    import referencing  # from jsonschema 4.18 on
except ImportError:
    referencing = None
try:
    import fastjsonschema
except ImportError:
    fastjsonschema = None

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "schema"
SCHEMAS = {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def validator(name):
    kind, schema = jsonschema.Draft202012Validator, SCHEMAS[name]
    if not referencing:
        return kind(schema, resolver=jsonschema.RefResolver("", schema, store=SCHEMAS))
    resources = [(key, referencing.Resource.from_contents(value)) for key, value in SCHEMAS.items()]
    return kind(schema, registry=referencing.Registry().with_resources(resources))


def explain(name, value):
    """The most telling way in which the value does not fit; None: it fits."""
    worst = jsonschema.exceptions.best_match(validator(name).iter_errors(value))
    return worst and f"{worst.json_path}: {worst.message}"


@functools.cache
def second_validator(name):
    """fastjsonschema reads an older draft, which has no unevaluatedProperties: fields that are new it lets pass."""
    schema = SCHEMAS[name] | {"$schema": "http://json-schema.org/draft-07/schema#"}
    return fastjsonschema.compile(schema, handlers={"": lambda uri: SCHEMAS[uri.partition("#")[0]]})


def explain_again(name, value):
    """As explain(), by another validator; None also without that one."""
    try:
        if fastjsonschema:
            second_validator(name)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        return f"fastjsonschema: {error.message}"
    return None


def require(name, value, source):
    if jsonschema and (wrong := explain(name, value) or explain_again(name, value)):
        print(f"FAILED: {source} does not fit tools/schema/{name}: {wrong}", file=sys.stderr)
        sys.exit(1)
    return value


def name_of(tool, args):
    if "bench" in pathlib.Path(tool).name:
        return "bench.json"
    return "channels.json" if "--channels" in args else "info.json"
