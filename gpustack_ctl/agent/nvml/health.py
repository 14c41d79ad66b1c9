"""Which cards cannot be trusted with work: told by the driver's events, and by the driver's own advice.

An XID is the driver's report of an error. Some are the fault of the program that ran and leave the card as good as it
was; NVIDIA's own device plugin for Kubernetes takes these numbers for such, and every other for the card's. A newer
driver also says what it wants done about a card, from nothing to a reboot. That is asked in every pass: it finds what
happened before this process came, and it ends an illness that a reset has cured. Where a driver does not say, an XID
stands until the card has been away, as it is during a reset.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml
import structlog

from gpustack_ctl.agent.nvml.session import NvmlError, ask, ask_if_known, try_ask

log = structlog.get_logger()

#: Graphics engine exception, page fault, stopped processing, preemptive cleanup, video exception, context switch
#: timeout: https://docs.nvidia.com/deploy/xid-errors/, and `ignoredXids` in k8s-device-plugin's internal/rm/health.go.
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 109})

#: A card is not well again sooner than this after an XID, whatever the driver advises: errors come in showers.
_CALM_SECONDS = 60.0

#: Events taken in one go: a shower of them must not keep the next pass from being made.
_MOST_AT_ONCE = 64

_ADVICE = {
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "a reset of the GPU",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "a reboot of the node",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "its peer-to-peer work drained",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "its work drained and a reset",
}

_EVENTS = (
    pynvml.nvmlEventTypeXidCriticalError
    | pynvml.nvmlEventMigConfigChange
    | pynvml.nvmlEventTypeGpuUnavailableError
    | pynvml.nvmlEventTypeGpuRecoveryAction
)


@dataclass(frozen=True, slots=True)
class _Illness:
    xid: int
    since: float


class Health:
    """What is known of the cards' health, by UUID. Its methods call NVML: one at a time, in the session's thread."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ill: dict[str, _Illness] = {}
        self._watched: set[str] = set()
        self._events: Any = None

    def watch(self, device: Any, uuid: str) -> None:
        """Have the driver tell of this card's events. Raises NvmlError."""
        if uuid in self._watched:
            return
        if self._events is None:
            self._events = ask(pynvml.nvmlEventSetCreate)
        known = _EVENTS & ask_if_known(0, pynvml.nvmlDeviceGetSupportedEventTypes, device)
        if known:
            ask_if_known(None, pynvml.nvmlDeviceRegisterEvents, device, known, self._events)
        else:
            log.info("card tells of no events, its health is only asked for", card=uuid)
        self._watched.add(uuid)

    def trouble(self, device: Any, uuid: str) -> str:
        """Why the card cannot be used now; empty for a card that can. Raises NvmlError."""
        advice = _recovery_action(device)
        if advice:
            return f"the driver asks for {_ADVICE.get(advice, f'recovery action {advice}')}"
        illness = self._ill.get(uuid)
        if illness is None:
            return ""
        if advice is not None and self._clock() - illness.since >= _CALM_SECONDS:
            del self._ill[uuid]
            return ""
        return f"XID {illness.xid}"

    def wait(self, milliseconds: int) -> bool:
        """Whether the driver told of something within that time. Raises NvmlError."""
        if self._events is None:
            time.sleep(milliseconds / 1000)
            return False
        for nth in range(_MOST_AT_ONCE):
            event = _next(self._events, 0 if nth else milliseconds)
            if event is None:
                return nth > 0
            self._note(event)
        return True

    def card_was_away(self, uuid: str) -> None:
        """A card that was not there has been reset, or is another: what it did before says nothing."""
        self._ill.pop(uuid, None)
        self._watched.discard(uuid)

    def forget_events(self) -> None:
        """Let the event set go, before the library is closed."""
        if self._events is not None:
            try_ask(None, pynvml.nvmlEventSetFree, self._events)
            self._events = None
        self._watched.clear()

    def _note(self, event: Any) -> None:
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return
        xid, uuid = int(event.eventData), try_ask("", pynvml.nvmlDeviceGetUUID, event.device)
        if xid in APPLICATION_XIDS:
            log.info("a program's fault on a card", card=uuid, xid=xid)
            return
        log.warning("a card reports an error of its own", card=uuid, xid=xid)
        # A card too far gone to say who it is may be any of those watched: none of them is trusted until asked again.
        for suspect in [uuid] if uuid else self._watched:
            self._ill[suspect] = _Illness(xid, self._clock())


def _next(events: Any, milliseconds: int) -> Any:
    try:
        return ask(pynvml.nvmlEventSetWait_v2, events, milliseconds)
    except NvmlError as error:
        if error.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        raise


def _recovery_action(device: Any) -> int | None:
    """What the driver wants done about the card, zero for nothing; None when this driver does not say."""
    fields = ask_if_known(None, pynvml.nvmlDeviceGetFieldValues, device, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if fields is None or fields[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return int(fields[0].value.uiVal)
