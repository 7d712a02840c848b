# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The manifests of pipelines/container, offline. Each object of kubernetes.yaml and kubernetes-gpu.yaml has only fields
that the Kubernetes API has, of the right types, and all that it requires, by the models of Debian's python3-kubernetes,
and by what is here of the API of 1.34 where those are older. Pods fit the Pod Security Standard "restricted" and share
one volume, or one claim of a GPU, alone. So do the services of compose.yaml. A wrong field is found."""

import copy
import pathlib
import re
import subprocess
import sys

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's packages
if sys.executable != PYTHON and pathlib.Path(PYTHON).exists():
    sys.exit(subprocess.run([PYTHON, *sys.argv]).returncode)

from tool import check, skip  # noqa: E402 (by that interpreter)

try:
    import yaml
    from kubernetes.client import models
except ImportError as missing:
    skip(f"{missing.name} is not installed (python3-kubernetes, python3-yaml)")

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "pipelines" / "container"
# Of Kubernetes 1.34, whose API Debian's models lack: fields of kinds that they know, and whole kinds, with what is
# required.
NEWER_FIELDS = {"V1PodSpec": {"resourceClaims": "list[PodResourceClaim]"},
                "V1ResourceRequirements": {"claims": "list[ContainerClaim]"}}
NEWER = {
    "PodResourceClaim": ({"name": "str", "resourceClaimName": "str", "resourceClaimTemplateName": "str"}, {"name"}),
    "ContainerClaim": ({"name": "str", "request": "str"}, {"name"}),
    "ResourceClaim": ({"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta", "spec": "ResourceClaimSpec",
                       "status": "object"}, {"spec"}),
    "ResourceClaimSpec": ({"devices": "DeviceClaim"}, set()),
    "DeviceClaim": ({"requests": "list[DeviceRequest]", "constraints": "object",
                     "config": "list[DeviceClaimConfiguration]"}, set()),
    "DeviceRequest": ({"name": "str", "exactly": "ExactDeviceRequest", "firstAvailable": "object"}, {"name"}),
    "ExactDeviceRequest": ({"deviceClassName": "str", "selectors": "object", "allocationMode": "str", "count": "int",
                            "adminAccess": "bool", "tolerations": "object", "capacity": "object"}, {"deviceClassName"}),
    "DeviceClaimConfiguration": ({"requests": "list[str]", "opaque": "OpaqueDeviceConfiguration"}, set()),
    "OpaqueDeviceConfiguration": ({"driver": "str", "parameters": "object"}, {"driver", "parameters"}),
}
SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def wrong(value, kind, path):
    """The first thing about the value that is not of this kind of the API's; None: it is one."""
    if found := re.fullmatch(r"list\[(.+)\]", kind):
        if not isinstance(value, list):
            return f"{path} is no list"
        return next(filter(None, (wrong(one, found[1], f"{path}[{at}]") for at, one in enumerate(value))), None)
    if found := re.fullmatch(r"dict[(\[]str, ?(.+)[)\]]", kind):
        if not isinstance(value, dict):
            return f"{path} is no map"
        return next(filter(None, (wrong(one, found[1], f"{path}.{key}") for key, one in value.items())), None)
    if kind in SCALARS:
        right = isinstance(value, SCALARS[kind]) and (kind == "bool" or not isinstance(value, bool))
        return None if right else f"{path} is {value!r}, and no {kind}"
    if kind == "object":
        return None
    if not isinstance(value, dict):
        return f"{path} is no {kind}"
    model = None if kind in NEWER else getattr(models, kind)
    names = {name: attribute for attribute, name in model.attribute_map.items()} if model else {}
    types = {name: model.openapi_types[attribute] for name, attribute in names.items()}
    types = NEWER[kind][0] if kind in NEWER else types | NEWER_FIELDS.get(kind, {})
    for name, one in value.items():
        if name not in types:
            return f"{path}.{name} is no field of {kind}"
        if reason := wrong(one, types[name], f"{path}.{name}"):
            return reason
    if not model:
        lacking = NEWER[kind][1] - set(value)
        return f"{path} lacks {', '.join(sorted(lacking))}" if lacking else None
    try:
        model(**{names[name]: one for name, one in value.items() if name in names})  # which refuses what lacks a field
    except ValueError as error:
        return f"{path}: {error}"
    return None


def model_of(item):
    version, kind = item.get("apiVersion"), item["kind"]
    return "V1" + kind if version == "v1" else kind if version == "resource.k8s.io/v1" else f"{version} {kind}"


def restricted(pod):
    """What keeps the pod from the standard "restricted"; None: nothing."""
    spec = pod["spec"]
    if any(spec.get(name) for name in ("hostIPC", "hostPID", "hostNetwork")):
        return "it has a namespace of the host"
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    if not kinds <= {"persistentVolumeClaim", "emptyDir", "configMap", "secret", "projected"}:
        return f"its volumes are {kinds}"
    context = spec["securityContext"]
    if not context.get("runAsNonRoot") or context.get("runAsUser") in (0, 65534):
        return "it runs as root, or as nobody"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        return "it has no profile of seccomp"
    for container in spec["containers"]:
        own = container["securityContext"]
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False or \
                own.get("capabilities") != {"drop": ["ALL"]} or not own.get("readOnlyRootFilesystem"):
            return f"the container {container['name']} has privileges"
    return None


items = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))
for item in items:
    reason = wrong(item, model_of(item), item["kind"])
    check(not reason, f"kubernetes.yaml: {reason}")
pods = [item for item in items if item["kind"] == "Pod"]
check(sorted(pod["metadata"]["name"] for pod in pods) == ["receive", "send"], f"the pods are {pods}")
for pod in pods:
    check(not restricted(pod), f"{pod['metadata']['name']}: {restricted(pod)}")
claims = [{volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]
           if "persistentVolumeClaim" in volume} for pod in pods]
named = {item["kind"]: item["metadata"]["name"] for item in items if item["kind"] != "Pod"}
check(claims == [{named["PersistentVolumeClaim"]}] * 2, f"the pods share {claims}")
claim = next(item for item in items if item["kind"] == "PersistentVolumeClaim")
check(claim["spec"]["volumeName"] == named["PersistentVolume"], "the claim is not of the volume")
check(pods[0]["spec"]["securityContext"] == pods[1]["spec"]["securityContext"], "the pods have different users")

# Mistakes are found.
for change in (lambda pod: pod["spec"].update(hostIpc=True),
               lambda pod: pod["spec"]["containers"][0].pop("name"),
               lambda pod: pod["spec"]["securityContext"].update(runAsUser="1000"),
               lambda pod: pod["spec"].update(volumes={})):
    mistaken = copy.deepcopy(pods[0])
    change(mistaken)
    check(wrong(mistaken, "V1Pod", "Pod"), f"this is taken for a pod: {mistaken}")
for change in (lambda pod: pod["spec"].update(hostIPC=True),
               lambda pod: pod["spec"]["volumes"].append({"name": "x", "hostPath": {"path": "/"}}),
               lambda pod: pod["spec"]["containers"][0]["securityContext"].update(privileged=True)):
    mistaken = copy.deepcopy(pods[0])
    change(mistaken)
    check(not wrong(mistaken, "V1Pod", "Pod") and restricted(mistaken), f"this is restricted: {mistaken}")

# Two pods of one claim, whose directory for sockets NVIDIA's driver makes; nothing else is shared.
items = list(yaml.safe_load_all((FOLDER / "kubernetes-gpu.yaml").read_text()))
for item in items:
    reason = wrong(item, model_of(item), item["kind"])
    check(not reason, f"kubernetes-gpu.yaml: {reason}")
claims = [item for item in items if item["kind"] == "ResourceClaim"]
pods = [item for item in items if item["kind"] == "Pod"]
check(len(claims) == 1 and sorted(pod["metadata"]["name"] for pod in pods) == ["receive", "send"], f"there are {items}")
for pod in pods:
    check(not restricted(pod), f"{pod['metadata']['name']}: {restricted(pod)}")
    spec = pod["spec"]
    check([one["resourceClaimName"] for one in spec["resourceClaims"]] == [claims[0]["metadata"]["name"]] and
          spec["containers"][0]["resources"]["claims"] == [{"name": spec["resourceClaims"][0]["name"]}] and
          [list(volume) for volume in spec["volumes"]] == [["name", "emptyDir"]], f"the pod shares {spec}")
check(pods[0]["spec"]["securityContext"] == pods[1]["spec"]["securityContext"], "the pods have different users")
parameters = claims[0]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
check(parameters["kind"] == "LocalIPCConfig" and parameters["enabled"] is True, f"there is no folder: {parameters}")
for change in (lambda claim: claim["spec"]["devices"]["requests"][0]["exactly"].pop("deviceClassName"),
               lambda claim: claim["spec"]["devices"]["requests"][0]["exactly"].update(count="2"),
               lambda claim: claim["spec"]["devices"].update(request=[]),
               lambda claim: claim["spec"]["devices"]["config"][0]["opaque"].pop("driver")):
    mistaken = copy.deepcopy(claims[0])
    change(mistaken)
    check(wrong(mistaken, "ResourceClaim", "ResourceClaim"), f"this is taken for a claim: {mistaken}")
mistaken = copy.deepcopy(pods[0])
mistaken["spec"]["resourceClaims"][0].pop("name")
check(wrong(mistaken, "V1Pod", "Pod"), f"this is taken for a pod: {mistaken}")

compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
check(list(compose["services"]) == ["send", "receive"] and set(compose["volumes"]) == {"plant"}, f"{compose}")
for name, service in compose["services"].items():
    check(service["volumes"] == ["plant:/run/plant"] and service["network_mode"] == "none" and service["read_only"] and
          service["cap_drop"] == ["ALL"] and not {"ipc", "pid", "privileged", "cap_add", "userns_mode"} & set(service),
          f"the service {name} shares more than the folder: {service}")
more = yaml.safe_load((FOLDER / "compose.gpu.yaml").read_text())["services"]
check(set(more) == {"send", "receive"} and all(set(service) == {"devices", "environment", "command"} and
                                               all(one.startswith("nvidia.com/gpu=") for one in service["devices"])
                                               for service in more.values()), f"for a GPU: {more}")
