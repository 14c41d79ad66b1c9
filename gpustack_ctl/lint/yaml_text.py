"""YAML documents with their lines, read as Kubernetes reads them and by libyaml where it is there.

An alias repeats what its anchor holds, and a page of aliases of aliases repeats it a billion times. That costs nothing
while it is read and everything once it is written out, so such a document is refused in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from gpustack_ctl.lint.document import BadTextError, Document

if TYPE_CHECKING:
    from yaml import SafeLoader as _Parser
else:
    _Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_MOST_VALUES = 1_000_000


class _Loader(_Parser):
    """YAML without dates and `=`, which mean nothing in a manifest."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in ("timestamp", "value")]
        for first, resolvers in _Parser.yaml_implicit_resolvers.items()
    }


def documents(text: str) -> list[Document]:
    """Raises BadTextError."""
    loader = None
    try:
        loader = _Loader(text)
        found = []
        while loader.check_node() and (node := loader.get_node()) is not None:
            if "*" in text:
                _Size().check(node)
            found.append(Document(_line(node), loader.construct_document(node), _item_lines(node)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadTextError(mark.line + 1 if mark else 1, f"not valid YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadTextError(line, f"not valid YAML: character {error.character:#x} may not stand in it") from error
    except ValueError as error:  # a number of thousands of digits
        raise BadTextError(1, f"not a manifest: {error}") from error
    else:
        return found
    finally:
        if loader is not None:
            loader.dispose()


def _item_lines(node: yaml.Node) -> tuple[int, ...]:
    lines: tuple[int, ...] = ()
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "items" and isinstance(value, yaml.SequenceNode):
                lines = tuple(_line(item) for item in value.value)
    return lines


class _Size:
    """How many values a document holds with every alias written out."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def check(self, node: yaml.Node) -> None:
        if self._of(node) > _MOST_VALUES:
            raise BadTextError(_line(node), "its aliases expand to more than a manifest can hold; write them out")

    def _of(self, node: yaml.Node) -> int:
        if id(node) in self._open:
            raise BadTextError(_line(node), "an alias leads back into its own anchor; write the value out")
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = 1 + sum(map(self._of, _children(node)))
            self._open.remove(id(node))
        return self._known[id(node)]


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
