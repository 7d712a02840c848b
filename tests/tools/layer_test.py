# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The line that gpudirect-info gives for the software DirectGMA layer does what it promises when it is pasted."""

import os
import subprocess

from tool import INFO, check, run, run_json, skip

report = run_json(INFO, env={"OPENCL_LAYERS": ""})
layer = report["dgma_layer"]
if not layer["helps"]:
    skip("no OpenCL device without DirectGMA of its own")
device = layer["helps"][0]
check(not layer["loaded"] and layer["path"] and os.path.isfile(layer["path"]), f"the layer is at {layer['path']}")
check(layer["hint"].startswith("OPENCL_LAYERS="), f"the hint is {layer['hint']!r}")
check(layer["hint"] in run(INFO, env={"OPENCL_LAYERS": ""})[0], "the text has another hint")

pasted = subprocess.run(layer["hint"] + " --json", shell=True, capture_output=True, text=True, timeout=60,
                        env=os.environ | {"OPENCL_LAYERS": ""})
check(pasted.returncode == 0, f"{layer['hint']}: {pasted.stderr}")
report = run_json(INFO, env={"OPENCL_LAYERS": layer["path"]})
check(report["dgma_layer"]["loaded"] and report["dgma_layer"]["hint"] is None, "the layer is not seen as loaded")
check(os.path.samefile(report["dgma_layer"]["loaded_path"], layer["path"]), "another layer is loaded")
route = next(route for route in report["routes"] if route["from"] == route["to"] == device)
check(route["two_processes"]["route"] == "directgma", f"{device} to {device} goes by {route['two_processes']}")
check('"directgma"' in pasted.stdout, "the pasted line does not load the layer")
