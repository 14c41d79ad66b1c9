"""Manifests as people keep them: YAML or JSON, several documents in a file, Lists, each object with its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.documents.marked import DocumentError
from gpustack_ctl.lint import json_text, yaml_text
from gpustack_ctl.lint.document import BadTextError, Document

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and where it begins."""

    source: str
    line: int
    object: Obj


class ManifestError(DocumentError):
    """A file that cannot be read: `file:line: what is wrong, and what to write instead`."""

    def __init__(self, source: str, line: int, message: str) -> None:
        super().__init__([f"{source}:{line}: {message}"])


def read(data: bytes, *, source: str) -> list[Manifest]:
    """Every object of a file, in order, those inside Lists included. Raises ManifestError."""
    try:
        documents = _documents(_text(data))
        return [Manifest(source, line, obj) for document in documents for line, obj in _objects(document)]
    except BadTextError as fault:
        raise ManifestError(source, fault.line, str(fault)) from fault
    except RecursionError as error:
        raise ManifestError(source, 1, "nested too deeply to be a manifest") from error


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadTextError(line, f"byte {data[error.start]:#04x} is not UTF-8; save the file as UTF-8") from error


def _documents(text: str) -> list[Document]:
    if text.lstrip()[:1] != "{":
        return yaml_text.documents(text)
    try:
        return json_text.documents(text)
    except BadTextError:
        # YAML may begin with a brace, too. If it is neither, it was meant as JSON.
        try:
            return yaml_text.documents(text)
        except BadTextError:
            pass
        raise


def _objects(document: Document) -> Iterator[tuple[int, Obj]]:
    value = document.value
    if value is None:
        return
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise BadTextError(document.line, "not a Kubernetes object; write its apiVersion and kind")
    items = value.get("items")
    if not value["kind"].endswith("List") or not isinstance(items, list):
        yield document.line, value
        return
    # A list of one kind, as the API server answers it, names the kind only once.
    kind = {"apiVersion": value.get("apiVersion"), "kind": value["kind"].removesuffix("List")}
    # What a List inside a List holds is said to stand where that begins.
    for line, item in zip(document.item_lines or [document.line] * len(items), items, strict=True):
        named = {**kind, **item} if kind["kind"] and isinstance(item, dict) else item
        yield from _objects(Document(line, named))
