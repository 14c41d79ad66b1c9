"""Cambricon's libcndev.so, as far as slices need it, through ctypes.

Structures and version numbers are those of `cndev.h`, API version 6, as Cambricon's device plugin ships it. The library
is opened at the first call: most nodes have none, and importing this costs them nothing.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_int, c_int64, c_uint8, c_uint32, c_uint64
from typing import Any, ClassVar

from gpustack_ctl.agent.responders.cambricon import NoSmluError, SmluError, SmluInstance

_VERSION = 6
_ENABLED = 1
_MAX = 0
_MOST_INSTANCES = 128


class _CardInfo(ctypes.Structure):
    _fields_: ClassVar = [("version", c_int), ("number", c_uint32)]


class _Mode(ctypes.Structure):
    _fields_: ClassVar = [("version", c_int), ("mode", c_int)]


class _Set(ctypes.Structure):
    _fields_: ClassVar = [("version", c_int), ("mlu_quota", c_uint32), ("memory_size", c_uint64)]


class _Info(ctypes.Structure):
    _fields_: ClassVar = [
        ("version", c_int),
        ("profile_id", c_int),
        ("instance_id", c_int),
        ("uuid", c_uint8 * 37),
        ("domain", c_int),
        ("bus", c_int),
        ("device", c_int),
        ("function", c_int),
        ("profile_name", c_char * 100),
        ("instance_name", c_char * 100),
        ("dev_node_name", c_char * 100),
        ("mlu_quota", c_uint32 * 2),
        ("memory_size", c_uint64 * 2),
        ("reserved", c_uint32 * 128),
    ]


class _ProfileIds(ctypes.Structure):
    _fields_: ClassVar = [("version", c_int), ("count", c_int), ("ids", c_int * 128)]


class _Profile(ctypes.Structure):
    _fields_: ClassVar = [
        ("version", c_int),
        ("profile_id", c_int),
        ("name", c_char * 100),
        ("total", c_uint32),
        ("remain", c_uint32),
        ("mlu_quota", c_uint32 * 2),
        ("memory_size", c_uint64 * 2),
    ]


class CnDev:
    """The calls; every one raises SmluError, and NoSmluError where library or driver have no such call."""

    def __init__(self, library: str = "libcndev.so") -> None:
        self._name = library
        self._library: ctypes.CDLL | None = None

    def cards(self) -> int:
        info = _CardInfo(version=_VERSION)
        self._call("cndevGetDeviceCount", ctypes.byref(info))
        return int(info.number)

    def is_on(self, card: int) -> bool:
        mode = _Mode(version=_VERSION)
        self._call("cndevGetSMLUMode", ctypes.byref(mode), self._handle(card))
        return bool(mode.mode == _ENABLED)

    def turn_on(self, card: int) -> None:
        self._call("cndevSetSMLUMode", ctypes.byref(_Mode(_VERSION, _ENABLED)), self._handle(card))

    def instances(self, card: int) -> list[SmluInstance]:
        found = (_Info * _MOST_INSTANCES)()
        for info in found:
            info.version = _VERSION
        count = c_int(_MOST_INSTANCES)
        self._call("cndevGetAllSMluInstanceInfo", ctypes.byref(count), found, self._handle(card))
        return [SmluInstance(_text(info.instance_name), _node(info.dev_node_name)) for info in found[: count.value]]

    def create(self, card: int, name: str, *, quota: int, memory_bytes: int) -> None:
        profile = self._profile(card, quota, memory_bytes)
        instance = c_int64()
        made_from = ctypes.c_uint(profile)
        handle = self._handle(card)
        self._call("cndevCreateSMluInstanceByProfileId", ctypes.byref(instance), made_from, handle, name.encode())

    def destroy(self, card: int, name: str) -> None:
        self._call("cndevDestroySMluInstanceByInstanceName", self._handle(card), name.encode())

    def _profile(self, card: int, quota: int, memory_bytes: int) -> int:
        """The profile of exactly that quota and memory: one that is there, else a new one."""
        handle = self._handle(card)
        ids = _ProfileIds(version=_VERSION)
        self._call("cndevGetSMluProfileIdInfo", ctypes.byref(ids), handle)
        for number in ids.ids[: ids.count]:
            profile = _Profile(version=_VERSION)
            self._call("cndevGetSMluProfileInfo", ctypes.byref(profile), c_int(number), handle)
            if (profile.mlu_quota[_MAX], profile.memory_size[_MAX]) == (quota, memory_bytes):
                return int(number)
        made = c_int()
        wanted = _Set(_VERSION, quota, memory_bytes)
        self._call("cndevCreateSMluProfileInfo", ctypes.byref(wanted), ctypes.byref(made), handle)
        return made.value

    def _handle(self, card: int) -> c_int64:
        handle = c_int64()
        self._call("cndevGetDeviceHandleByIndex", c_int(card), ctypes.byref(handle))
        return handle

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            call = getattr(self._open(), name)
        except AttributeError:
            raise NoSmluError(f"{self._name} has no {name}") from None
        code = call(*arguments)
        if code != 0:
            raise SmluError(f"{name} failed with cnDev code {code}")

    def _open(self) -> ctypes.CDLL:
        if self._library is None:
            try:
                library = ctypes.CDLL(self._name)
            except OSError as error:
                raise NoSmluError(f"{self._name} cannot be loaded: {error}") from error
            if (code := library.cndevInit(c_int(0))) != 0:
                raise SmluError(f"cndevInit failed with cnDev code {code}")
            self._library = library
        return self._library


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


def _node(name: bytes) -> str:
    """The path of an instance's device node; some drivers give the name alone."""
    return _text(name) if name.startswith(b"/") else f"/dev/{_text(name)}"
