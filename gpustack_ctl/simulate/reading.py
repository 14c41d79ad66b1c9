"""Reading a scenario: all faults at once, each with its line, its field and what to write instead.

What a Workload asks is not judged here, since that is gate 1's work: a request that the webhook would refuse is part of
what a scenario may want to show.
"""

from __future__ import annotations

from pathlib import Path

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.documents.marked import Document, DocumentError
from gpustack_ctl.simulate.reading_nodes import read_nodes
from gpustack_ctl.simulate.reading_work import read_events, read_random, read_workloads
from gpustack_ctl.simulate.scenario import Scenario


def load_scenario(path: Path, *, table: Manufacturers) -> Scenario:
    """Read the file at `path`. Raises DocumentError, and OSError as the system says it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError([f"{path}:1: not UTF-8 text: {error.reason}"]) from error
    return read_scenario(text, source=str(path), table=table)


def read_scenario(text: str, *, source: str, table: Manufacturers) -> Scenario:
    """Read a scenario from text. Raises DocumentError with every fault."""
    document = Document(text, source=source)
    root = document.root.fields("nodes", "workloads", "random", "events")
    nodes = read_nodes(root["nodes"], table=table)
    drawn, listed = root["random"], root["workloads"]
    if not drawn.absent and not listed.absent:
        drawn.wrong("stands instead of workloads; keep one of the two")
    elif drawn.absent and listed.absent:
        listed.missing("write a list of workloads, or random to have them drawn")
    workloads = read_workloads(listed, nodes, table=table)
    random = None if drawn.absent else read_random(drawn, nodes)
    events = read_events(root["events"], nodes, workloads)
    document.check()
    return Scenario(nodes, workloads, random, events)
