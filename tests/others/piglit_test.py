# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""piglit's suite cl on this machine's OpenCL driver, with and without the DirectGMA layer, which OPENCL_LAYERS names:
the results are the same. piglit is one of Debian's packages.

    piglit_test.py [REGEX]      only these tests"""

import bz2
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SECONDS = "60"  # for one test: on PoCL some wait for ever, with and without the layer
HOURS = 3 * 3600


def run(folder, only, layer):
    """The result of each test."""
    env = os.environ | {"OPENCL_LAYERS": layer}
    done = subprocess.run(["piglit", "run", "--overwrite", "--jobs", str(os.cpu_count()), "--timeout", SECONDS, "-l",
                           "quiet", "-t", only, "cl", folder], env=env, capture_output=True, text=True, timeout=HOURS)
    found = next(pathlib.Path(folder).glob("results.json*"), None)
    if done.returncode or not found:
        sys.exit(f"piglit run ends with {done.returncode}:\n{done.stdout}{done.stderr}")
    data = bz2.decompress(found.read_bytes()) if found.suffix == ".bz2" else found.read_bytes()
    return {name: (test["result"], sorted(test.get("subtests", {}).items()))
            for name, test in json.loads(data)["tests"].items()}


def compare(folder, only, layer):
    """The tests whose results differ, as pairs of results without and with the layer; and all with it."""
    plain, layered = (run(f"{folder}/{name}", only, path) for name, path in (("plain", ""), ("layered", layer)))
    return {name: (plain.get(name), layered.get(name)) for name in plain | layered
            if plain.get(name) != layered.get(name)}, layered


def main():
    if not shutil.which("piglit"):
        print("skipped: there is no piglit (Debian: apt install piglit)")
        return 77
    layer = os.environ["OPENCL_LAYERS"]
    with tempfile.TemporaryDirectory(prefix="gpud-") as folder:
        different, results = compare(folder, sys.argv[1] if len(sys.argv) > 1 else ".", layer)
        counts = collections.Counter(result for result, _ in results.values())
        print(f"{len(results)} tests with the layer:", ", ".join(f"{counts[key]} {key}" for key in sorted(counts)))
        if different:  # a second time, as a busy machine may end a test at its limit
            different, _ = compare(folder, "|".join(f"^{re.escape(name)}$" for name in different), layer)
    for name, (plain, layered) in different.items():
        print(f"{name}: {plain} without the layer, {layered} with it", file=sys.stderr)
    print(f"{len(different)} have another result without it")
    return 1 if different or not counts["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
