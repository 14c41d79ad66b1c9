"""YAML read with its line numbers, so that a fault can say where it is.

A `Field` is one place in the document: its path in the notation of Kubernetes' field errors, its line and its YAML
node. Readers ask it for what they expect; a field that is something else records a fault and answers with the default,
so one pass reports every fault of a file instead of the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gpustack_ctl.accel.field_errors import FieldError, invalid, required


class DocumentError(ValueError):
    """Everything that is wrong with a document, one line each: `file:line: field: what, and what to write instead`."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Document:
    """One YAML file being read, and the faults found so far."""

    def __init__(self, text: str, *, source: str) -> None:
        self._source = source
        self._faults: list[tuple[int, str]] = []
        self._root = self._compose(text)

    @property
    def root(self) -> Field:
        return Field(self, "", self._root, 1 if self._root is None else _line(self._root))

    def fault(self, line: int, error: FieldError) -> None:
        self._faults.append((line, f"{self._source}:{line}: {error}"))

    def check(self) -> None:
        """Raise what was found, in the order of the file."""
        if self._faults:
            raise DocumentError([text for _, text in sorted(self._faults)])

    def _compose(self, text: str) -> yaml.Node | None:
        try:
            return yaml.compose(text, Loader=_LOADER)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            problem = getattr(error, "problem", None) or str(error)
            raise DocumentError([f"{self._source}:{line}: not valid YAML: {problem}"]) from error


@dataclass(frozen=True, slots=True)
class Field:
    """One place in a document. `node` is None where the document has nothing."""

    document: Document
    path: str
    node: yaml.Node | None
    line: int

    @property
    def absent(self) -> bool:
        return self.node is None or (isinstance(self.node, yaml.ScalarNode) and self.node.tag == _NULL)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.node, yaml.MappingNode)

    def wrong(self, message: str) -> None:
        """Record that this field's value will not do."""
        self.document.fault(self.line, invalid(self.path or "document", self._shown(), message))

    def missing(self, message: str) -> None:
        self.document.fault(self.line, required(self.path or "document", message))

    def fields(self, *known: str) -> Mapping[str, Field]:
        """This mapping's fields by name, every known name present; unknown names are faults."""
        found = {name: Field(self.document, self._below(name), None, self.line) for name in known}
        if not isinstance(self.node, yaml.MappingNode):
            if not self.absent:
                self.wrong(f"write a mapping with {', '.join(known)}")
            return found
        for key, value in self.node.value:
            name = str(key.value)
            field = Field(self.document, self._below(name), value, _line(key))
            if name in found:
                found[name] = field
            else:
                field.wrong(_unknown(name, known))
        return found

    def entries(self, message: str) -> list[tuple[str, Field]]:
        """The entries of a mapping whose keys are the writer's own; `message` says what to write when it is none."""
        if self.absent:
            return []
        if not isinstance(self.node, yaml.MappingNode):
            self.wrong(message)
            return []
        return [
            (str(key.value), Field(self.document, self._below(str(key.value)), value, _line(key)))
            for key, value in self.node.value
        ]

    def items(self, message: str) -> list[Field]:
        """The items of this list; `message` says what to write when it is none."""
        if self.absent:
            return []
        if not isinstance(self.node, yaml.SequenceNode):
            self.wrong(message)
            return []
        return [
            Field(self.document, f"{self.path}[{index}]", node, _line(node))
            for index, node in enumerate(self.node.value)
        ]

    def text(self, default: str = "") -> str:
        """A scalar as text, whatever YAML would make of it: driver version 535.1 is no number."""
        if self.absent:
            return default
        if isinstance(self.node, yaml.ScalarNode):
            return str(self.node.value).strip()
        self.wrong("write one line of text")
        return default

    def integer(self, default: int, *, least: int, most: int = 2**31 - 1) -> int:
        value = self.value()
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bound = f"at least {least}" if most == 2**31 - 1 else f"from {least} to {most}"
            self.wrong(f"write a whole number, {bound}")
            return default
        return value

    def seconds(self, default: float | None) -> float | None:
        value = self.value()
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.wrong("write seconds, zero or more")
            return default
        return float(value)

    def number(self, default: float, *, above: float = 0.0) -> float:
        """A number greater than `above`."""
        value = self.value()
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not above < value < float("inf"):
            self.wrong(f"write a number greater than {above:g}")
            return default
        return float(value)

    def flag(self, default: bool = False) -> bool:
        value = self.value()
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong("write true or false")
            return default
        return value

    def value(self) -> Any:
        """What YAML makes of a scalar, for readers that judge it themselves; None where there is nothing."""
        if self.absent:
            return None
        if not isinstance(self.node, yaml.ScalarNode):
            return self.node
        try:
            return yaml.constructor.SafeConstructor().construct_object(self.node)
        except (yaml.YAMLError, ValueError):
            return self.node.value

    def _below(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _shown(self) -> str:
        match self.node:
            case yaml.ScalarNode():
                return str(self.node.value)
            case yaml.SequenceNode():
                return "a list"
            case yaml.MappingNode():
                return "a mapping"
        return ""


_NULL = "tag:yaml.org,2002:null"

#: LibYAML's reader where PyYAML was built with it: a scenario may have a hundred thousand lines.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _unknown(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"no such field; did you mean {close[0]}?"
    return f"no such field; fields here are {', '.join(known)}"
