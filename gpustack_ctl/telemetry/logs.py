"""Logs: JSON lines in a Pod, colours on a terminal, plain lines anywhere else; always on stderr.

stdout belongs to answers (`--output json` puts one document there and nothing else). Every line of one decision
carries the same ids; whoever starts a decision binds them with `structlog.contextvars.bound_contextvars`.
"""

import logging
import os
import sys
from typing import Literal

import structlog

LogFormat = Literal["auto", "json", "text"]


def configure(*, level: str = "info", format: LogFormat = "auto") -> None:  # noqa: A002 - the flag's own name
    """Set up structlog and the standard library's loggers (aiohttp, grpclib) for this process.

    `level` is a standard level name in lower case. `format` "auto" means JSON inside a Pod and text elsewhere.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_Stderr,
        cache_logger_on_first_use=True,
    )
    # Libraries log through the standard library; only what needs a person's eye gets through.
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.WARNING), format="%(levelname)s %(name)s: %(message)s"
    )


class _Stderr:
    """Writes to what stderr is at that moment: one that was captured is closed when the capture ends."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, message: str) -> None:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()

    log = debug = info = warning = error = critical = exception = msg


def _renderers(format: LogFormat) -> list[structlog.typing.Processor]:  # noqa: A002
    if format == "json" or (format == "auto" and "KUBERNETES_SERVICE_HOST" in os.environ):
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_dumps)]
    return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), sort_keys=False)]


def _dumps(value: object, default: object = None, **_: object) -> str:
    import orjson

    return orjson.dumps(value, default=default).decode()  # type: ignore[arg-type]
