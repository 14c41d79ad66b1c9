"""Names: how identities of hardware become names of objects.

Everything is derived, nothing is remembered: two managers, or one after a restart, must arrive at the same name. The
LocalQueue's name is a hash because it travels as a label value, which ends at 63 characters, while a pool's name may
not fit.
"""

from __future__ import annotations

import re

GENERIC = "generic"

_FNV64_OFFSET = 0xCBF29CE484222325
_FNV64_PRIME = 0x100000001B3
_LABEL_LIMIT = 63
_NAME_LIMIT = 253
_HASH_LENGTH = 16
#: A key is the front of label names such as `<aKey>.capacity`; what follows it must fit too.
_LONGEST_KEY = _LABEL_LIMIT - len(".capacity")


def fnv64(text: str) -> str:
    """FNV-1a, 64 bits, of the text's UTF-8, as 16 hexadecimal digits."""
    value = _FNV64_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV64_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def group_id(product: str, manufacturer: str, *, memory_mib: int | None = None) -> str:
    """The id of a model: its product name in lower case, without a leading manufacturer, with dashes between words.

    `memory_mib` is given only where models of one product must be told apart by VRAM.
    """
    slug = _slug(product)
    model = slug.removeprefix(f"{manufacturer}-") or GENERIC
    if memory_mib is not None:
        model = f"{model}-{-(-memory_mib // 1024)}gb"
    return _bounded(model, _LONGEST_KEY - len(manufacturer) - 1)


def akey(manufacturer: str, group: str) -> str:
    """The accelerator key of a `Devices` group, e.g. `nvidia-a10g`."""
    return f"{manufacturer}-{group}"


def gkey(manufacturer: str, product: str) -> str:
    """The CPU key, e.g. `amd-epyc-7r32`; `generic` when the manufacturer or the product is not known."""
    if not _slug(manufacturer) or not _slug(product):
        return GENERIC
    maker = _slug(manufacturer)
    return f"{maker}-{group_id(product, maker)}"


def flavor_name(
    *, gkey: str, akey: str | None, os: str, arch: str, count: int, profile: str, hostname_only: bool = True
) -> str:
    """The ResourceFlavor of one hardware identity; `count` is cards, or cores where there is no accelerator.

    Nodes of one identity but of another topology shape carry the shape's hash behind the name.
    """
    accelerator = f"--{akey}" if akey else ""
    unit = "d" if akey else "c"
    shape = "" if hostname_only else f"-{profile}"
    return object_name(f"gpustack--{gkey}{accelerator}-{os}-{arch}-{count}{unit}{shape}")


def queue_name(*, gkey: str, akey: str | None, os: str, arch: str, aware: bool = False) -> str:
    """The ClusterQueue and its same-named InstanceType. `aware`: pools are kept apart by CPU as well."""
    general = gkey if aware else GENERIC
    if akey is None:
        return object_name(f"gpustack--{general}-{os}-{arch}")
    return object_name(f"gpustack--{general}--{akey}-{os}-{arch}" if aware else f"gpustack--{akey}-{os}-{arch}")


def entrance_name(queue_name: str) -> str:
    """The LocalQueue through which a namespace reaches the queue: 31 characters, so that it fits a label value."""
    return f"gpustack-fnv64-{fnv64(queue_name)}"


def topology_name(profile: str) -> str:
    """The Kueue Topology of a topology profile."""
    return f"gpustack-{profile}"


def object_name(name: str) -> str:
    """`name` fit for a Kubernetes object: valid next to every dot, and ending in a hash where it would be too long."""
    return _bounded(_AROUND_DOT.sub(".", name), _NAME_LIMIT)


_OUTSIDE = re.compile(r"[^a-z0-9.]+")
_AROUND_DOT = re.compile(r"[-.]*\.[-.]*")


def _slug(text: str) -> str:
    return _OUTSIDE.sub("-", text.lower()).strip("-.")


def _bounded(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    head = name[: limit - _HASH_LENGTH - 1].rstrip("-.")
    return f"{head}-{fnv64(name)}"
