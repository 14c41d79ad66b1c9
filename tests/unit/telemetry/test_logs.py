"""Logs go to stderr, whatever stderr is when a line is written."""

import io
import sys

import pytest
import structlog

from gpustack_ctl.telemetry import logs


def test_a_line_goes_to_the_stderr_of_its_moment_not_to_one_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    logs.configure(format="json")
    log = structlog.get_logger()
    log.info("one")
    first.close()
    monkeypatch.setattr(sys, "stderr", second)
    log.info("two", node="a")
    assert '"event":"two"' in second.getvalue()


def test_json_lines_carry_what_was_bound(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(format="json")
    with structlog.contextvars.bound_contextvars(workload="team/w"):
        structlog.get_logger().warning("held")
    assert '"workload":"team/w"' in capsys.readouterr().err
