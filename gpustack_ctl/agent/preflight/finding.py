"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    #: An allocation would be refused, or its container would not start.
    UNAVAILABLE = "unavailable"
    #: Nothing here asks for it, or nobody here can tell.
    NOT_DECLARED = "not-declared"


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is what to do about it, empty where there is nothing to be done."""

    check: str
    state: State
    reason: str
    remedy: str = ""

    def document(self) -> dict[str, str]:
        return {"check": self.check, "state": self.state.value, "reason": self.reason, "remedy": self.remedy}
