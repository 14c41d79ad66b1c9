"""Admission reviews gone wrong, from a seed: bodies that nobody should send, and that must not hurt.

Each begins as the review of a case of the table and is then broken in a few places at once: a value of another type at
any depth, a part cut out, a field that nobody knows, an absurd quantity, too much of something, bytes that are no JSON.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from tests.gate1.cases import CASES, GPU, PARTITIONED, SLICED, Case, queue_of

Obj = dict[str, Any]

QUANTITIES = ("0", "1", "2", "50", "100", "101", "-1", "0.5", "100m", "1Ki", "1e0", "50e0", "1e30", "1e999999999",
              "1E", "1n", " 1", "1 ", "+1", "-0", "", "x", "1ki", "0x10", "1_0", "٣", "9" * 30, "9" * 600, ".", "1.",
              "9223372036854775807", "9223372036854775808", "0.000000000000000001")  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 10**18, 1.5, 1e300, "", "x", "1", "Always", "x" * 300, [], {},
                           [[]], [{}], {"a": []}, [None] * 3, {"": ""}, {"name": 7})  # fmt: skip
KEYS = (GPU, f"{GPU}.shared", SLICED, f"{SLICED}.units", f"{SLICED}.memory-percentage", f"{SLICED}.memory-mib",
        f"{SLICED}.cores-percentage", PARTITIONED, f"{PARTITIONED}.units", f"{PARTITIONED}.mig-1g.10gb",
        f"{PARTITIONED}.mig-2g.20gb", f"{PARTITIONED}.mig-", "amd.com/gpu", "amd.com/gpu.sliced", f"{GPU}.", "cpu",
        f"{GPU}.shared.units", "device.gpustack.ai/nvidia.visibility", "NVIDIA.com/gpu", "", "ü")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """A body, where it is sent, and the review in it; None when it is not one any more."""

    path: str
    body: bytes
    review: Obj | None
    broken: bool


def sent(seed: int, count: int) -> Iterator[Sent]:
    """One in ten is left whole; one in ten is no JSON any more."""
    dice = random.Random(seed)
    for number in range(count):
        path, review = _whole(dice, number)
        kind = dice.random()
        if kind < 0.1:
            yield Sent(path, orjson.dumps(review), review, broken=False)
        elif kind < 0.2:
            yield Sent(path, _mangled(dice, orjson.dumps(review)), None, broken=True)
        else:
            for _ in range(dice.randint(1, 4)):
                review = dice.choices(_BREAKS, weights=(4, 2, 2, 6, 4, 1, 0.03))[0](dice, review)
            yield Sent(path, orjson.dumps(review), review, broken=True)


def _whole(dice: random.Random, number: int) -> tuple[str, Obj]:
    case = dice.choice(CASES)
    verb = dice.choice(("mutate", "validate"))
    if dice.random() < 0.3:
        return f"/{verb}/jobs", _review(number, "batch", "Job", _job(case), dice)
    return f"/{verb}/pods", _review(number, "", "Pod", _object(case, {"spec": copy.deepcopy(case.spec)}), dice)


def _review(number: int, group: str, kind: str, obj: Obj, dice: random.Random) -> Obj:
    request = {
        "uid": f"uid-{number}",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "operation": "CREATE",
        "namespace": "team",
        "object": obj,
        "oldObject": None,
    }
    if kind == "Job" and dice.random() < 0.4:
        request |= {"operation": "UPDATE", "oldObject": copy.deepcopy(obj)}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _object(case: Case, fields: Obj) -> Obj:
    labels = {"kueue.x-k8s.io/queue-name": queue_of(case.pool)}
    return {"metadata": {"name": "fuzzed", "namespace": "team", "labels": labels, "annotations": {}}, **fields}


def _job(case: Case) -> Obj:
    template = {"metadata": {}, "spec": copy.deepcopy(case.spec)}
    return _object(case, {"spec": {"suspend": True, "template": template}})


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    found: list[tuple[Any, Any]] = []
    open_values = [value]
    while open_values:
        current = open_values.pop()
        if isinstance(current, dict | list):
            keys = list(current) if isinstance(current, dict) else range(len(current))
            found += [(current, key) for key in keys]
            open_values += [current[key] for key in keys]
    return found


def _another_value(dice: random.Random, review: Obj) -> Obj:
    if places := _places(review):
        container, key = dice.choice(places)
        container[key] = _value(dice)
    return review


def _value(dice: random.Random) -> Any:
    return copy.deepcopy(dice.choice(VALUES))


def _cut_out(dice: random.Random, review: Obj) -> Obj:
    if places := _places(review):
        container, key = dice.choice(places)
        del container[key]
    return review


def _unknown_field(dice: random.Random, review: Obj) -> Obj:
    maps = [container[key] for container, key in _places(review) if isinstance(container[key], dict)]
    if maps:
        name = dice.choice(("unknown", "requests", "limits", "restartPolicy", "a/b~c"))
        dice.choice(maps)[name] = _value(dice)
    return review


def _resources(dice: random.Random, review: Obj) -> Obj:
    """Absurd quantities, and keys that do not go together."""
    if maps := _named(review, "limits") + _named(review, "requests"):
        limits = dice.choice(maps)
        key = dice.choice(KEYS) if dice.random() < 0.5 or not limits else dice.choice(list(limits))
        limits[key] = dice.choice(QUANTITIES)
    return review


def _containers(dice: random.Random, review: Obj) -> Obj:
    """Twins, sidecars, and groups that should not be."""
    lists = [found for name in ("containers", "initContainers") for found in _lists(review, name)]
    if lists:
        containers = dice.choice(lists)
        if containers and isinstance(containers[0], dict):
            twin = copy.deepcopy(dice.choice(containers))
            if isinstance(twin, dict) and dice.random() < 0.3:
                twin["restartPolicy"] = "Always"
            containers.append(twin)
        if dice.random() < 0.3:
            for spec in _named(review, "spec"):
                spec["initContainers"] = copy.deepcopy(containers)
    return review


def _affinity(dice: random.Random, review: Obj) -> Obj:
    for spec in _named(review, "spec"):
        rule = dice.choice((_value(dice), {"nodeSelectorTerms": _value(dice)}))
        node = dice.choice((_value(dice), {"requiredDuringSchedulingIgnoredDuringExecution": rule}))
        spec["affinity"] = dice.choice((_value(dice), {"nodeAffinity": node}))
    return review


def _too_much(dice: random.Random, review: Obj) -> Obj:
    if dice.random() < 0.5:
        for containers in _lists(review, "containers"):
            containers *= 1000 // max(len(containers), 1)
    else:
        for metadata in _named(review, "metadata"):
            metadata["annotations"] = {"note": "x" * 2**20}
    return review


_BREAKS: tuple[Callable[[random.Random, Obj], Obj], ...] = (
    _another_value,
    _cut_out,
    _unknown_field,
    _resources,
    _containers,
    _affinity,
    _too_much,
)


def _named(review: Obj, name: str) -> list[Obj]:
    return [box[key] for box, key in _places(review) if key == name and isinstance(box[key], dict)]


def _lists(review: Obj, name: str) -> list[list[Any]]:
    return [box[key] for box, key in _places(review) if key == name and isinstance(box[key], list)]


def _mangled(dice: random.Random, body: bytes) -> bytes:
    at = dice.randrange(len(body))
    how: tuple[Callable[[], bytes], ...] = (
        lambda: body[:at],
        lambda: body[:at] + b"\xff\xfe\x00" + body[at:],
        lambda: body[:at] + dice.randbytes(8) + body[at + 8 :],
        lambda: b"",
        lambda: dice.randbytes(200),
        lambda: b"[" * 100_000,
        lambda: b"[" + body + b"]",
        lambda: b"null",
        lambda: body + body,
        lambda: body.decode().encode("utf-16"),
    )
    return dice.choice(how)()
