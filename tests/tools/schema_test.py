# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The schemas of tools/schema: each is valid, describes every field, and names have units. What gpudirect-info and
gpudirect-bench print on this machine fits, in every mode; so does the monitor's in tools-monitor, and that of other
machines in their tests. A field that is new, missing or of another type does not."""

import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import schemas
from tool import BENCH, INFO, SMALL, check, run_json, skip, wait_for

# What a description says is measured in so, and how the name of a number then ends; or that of the object around it.
UNITS = {"nanoseconds": "_ns", "microseconds": "us", "seconds": "(s|seconds)", "bytes a second": "bytes_per_second",
         "bytes": "bytes", "10^9 bytes a second": "gigabytes_per_second", "10^6 bits a second": "mbps",
         "10^3 bytes": "kilobytes", "frames a second": "(fps|hz)"}

if not schemas.jsonschema:
    skip("jsonschema is not installed (python3-jsonschema)")


def each_field(schema, path=()):
    """Path and schema of every property, at any depth."""
    if isinstance(schema, list):
        for one in schema:
            yield from each_field(one, path)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                for name, field in value.items():
                    if name != "answered" or "description" in field:  # the condition of `if`
                        yield (*path, name), field
                        yield from each_field(field, (*path, name))
            elif key != "enum":
                yield from each_field(value, (*path, key) if key not in ("items", "anyOf", "$defs") else path)


def each_object(schema):
    if isinstance(schema, list):
        for one in schema:
            yield from each_object(one)
    elif isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for value in schema.values():
            yield from each_object(value)


def check_units(name, path, field):
    kinds = field.get("type")
    if not {"number", "integer"} & set(kinds if isinstance(kinds, list) else [kinds]):
        return
    for unit, ending in sorted(UNITS.items(), key=lambda one: -len(one[0])):
        if re.match(rf"{re.escape(unit)}\b", field["description"]):
            named = any(re.search(rf"(^|_){ending.strip('_')}(_p\d+|_per_frame|_max|_median)?$", part) or
                        re.match(rf"{ending}_", part) for part in path)
            check(named, f"{name}: {'.'.join(path)} is in {unit}, which its name does not say")
            return


for name, schema in schemas.SCHEMAS.items():
    schemas.jsonschema.Draft202012Validator.check_schema(schema)
    check(schema["$id"] == name, f"{name} has the id {schema['$id']}")
    fields = list(each_field(schema))
    check(len(fields) >= 20, f"{name} describes {len(fields)} fields")
    for path, field in fields:
        check(len(field.get("description", "")) > 5 or "$ref" in field, f"{name}: {'.'.join(path)} is not described")
        check_units(name, path, field)
# Every object is closed, where it is used if it is part of a larger one.
OPEN = [schemas.SCHEMAS["channels.json"]["$defs"][name] for name in ("receiver", "channel")]
for name, schema in schemas.SCHEMAS.items():
    for one in each_object(schema):
        closed = one.get("additionalProperties") is False or one.get("unevaluatedProperties") is False
        check(closed or one in OPEN or one == OPEN[1]["if"], f"{name}: the object of {list(one['properties'])} is open")

# As they are installed, each alone, wherever it is used.
BUILT = pathlib.Path(os.environ["GPUDIRECT_BUILD"]) / "tools/schema"
for name, schema in schemas.SCHEMAS.items():
    bundle = json.loads((BUILT / name).read_text())
    check({key: value for key, value in bundle.items() if key != "$defs"} ==
          {key: value for key, value in schema.items() if key != "$defs"}, f"{BUILT / name} is another schema")
    for ref in set(re.findall(r'"\$ref": "([a-z]+\.json[^"]*)"', (schemas.FOLDER / name).read_text())):
        part = schemas.jsonschema.Draft202012Validator({"$id": name, "$ref": ref, "$defs": bundle["$defs"]})
        check(list(part.iter_errors([])), f"{name}: {ref} does not lead to a schema in the file itself")
done = subprocess.run([sys.executable, "-W", "ignore", "-m", "jsonschema", "-i",
                       schemas.FOLDER.parent / "results/ci/report.json", BUILT / "report.json"],
                      cwd="/", capture_output=True, text=True)
check(done.returncode == 0, f"jsonschema -i ends with {done.returncode}: {done.stdout}{done.stderr}")

runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
for args in ([], ["--measure"], ["--topology"], ["--channels"]):
    run_json(INFO, *args)  # which compares it
report = run_json(INFO)
for mode in ([], ["--fps", "200"], ["--runs", "2"], ["--receivers", "2", "--distribution"]):
    result = run_json(BENCH, *SMALL, "--frames", "60", *mode)
check(len(result["distribution"]) > 100 and result["distribution"][-1]["us"] == result["latency_us"]["max"] and
      [point["us"] for point in result["distribution"]] == sorted(point["us"] for point in result["distribution"]),
      f"the distribution is {result['distribution']}")
channels = run_json(BENCH, *SMALL, "--frames", "20", "--channels", "1,2")
if shutil.which("gst-launch-1.0"):
    run_json(BENCH, *SMALL, "--frames", "30", "--runs", "1", "--elements", "--compare",
             "shmsink socket-path={dir}/shm shm-size={bytes} | shmsrc socket-path={dir}/shm is-live=true ! {caps}")

# A channel with a receiver.
sender = subprocess.Popen(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "!", "gpudirectsink", "address=one"])
receiver = subprocess.Popen(["gst-launch-1.0", "-q", "gpudirectsrc", "address=one", "!", "fakesink"])
try:
    shown = wait_for("a receiver", lambda: next(
        (found for found in [run_json(INFO, "--channels")]
         if found["channels"] and len(found["channels"][0].get("receivers", [])) == 1), None))
    run_json(INFO, "--channels", "one")
finally:
    for process in (sender, receiver):
        process.kill()
        process.wait()


def refused(name, value, what, *path):
    """With the field at path added, or taken away, or of another type."""
    changed = copy.deepcopy(value)
    place = changed
    for part in path[:-1]:
        place = place[part]
    what(place, path[-1])
    check(schemas.explain(name, changed), f"{name}: {path} is changed, and still fits")
    check(what is add or not schemas.fastjsonschema or schemas.explain_again(name, changed),
          f"{name}: {path} is changed, and still fits for fastjsonschema")


def add(place, key):
    place[key] = 1


def remove(place, key):
    del place[key]


def retype(place, key):
    place[key] = {}


for name, value, path in (("info.json", report, ["devices", 0]), ("info.json", report, []),
                          ("info.json", report, ["network"]), ("channels.json", shown, ["channels", 0]),
                          ("channels.json", shown, ["channels", 0, "receivers", 0]), ("channels.json", shown, []),
                          ("bench.json", result, []), ("bench.json", result, ["latency_us"]),
                          ("bench.json", channels, ["channels", 0])):
    refused(name, value, add, *path, "new_field")
    place = value
    for part in path:
        place = place[part]
    refused(name, value, remove, *path, next(iter(place)))
    refused(name, value, retype, *path, next(iter(place)))
