"""Places in an allocation where a test ends this process, as a power cut would.

An agent promises to lose nothing whenever it dies. The moments that matter lie between two of its steps and last
microseconds, so a kill from outside never hits them all; GPUSTACK_FAULT_POINT names the one to die at, and the process
sends itself SIGKILL there: nothing is closed, flushed or handed back. Unset, a point is one comparison.
"""

from __future__ import annotations

import os
import signal

#: In the order in which the allocation of a partition passes them.
POINTS = (
    "after-decision",
    "after-journal",
    "after-flush",
    "after-marker",
    "after-instances",
    "after-response",
    "after-answer",
    "after-record",
)

_CHOSEN = os.environ.get("GPUSTACK_FAULT_POINT", "")


def reach(point: str) -> None:
    """Die here if this is the point that was asked for."""
    if point == _CHOSEN:
        os.kill(os.getpid(), signal.SIGKILL)
