"""How a command ends: the exit codes, and the failures that a person is told in a line instead of a traceback.

0 done or yes · 1 no (refused, not fitting, the story failed) · 2 bad input or usage · 3 the cluster or this host could
not be reached. Anything else is a defect, and its traceback is what we want to see.
"""

from collections.abc import Callable, Iterator
from typing import Any

import click

NO, BAD_INPUT, OUT_OF_REACH = 1, 2, 3
INTERRUPTED = 130


def exit_code(cli: click.Command, arguments: list[str]) -> int:
    """Run a command line; every expected failure becomes one plain message and its exit code."""
    try:
        cli.main(arguments, prog_name="gpustack-ctl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.Abort:
        return INTERRUPTED
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else NO
    except _bad_input() as error:
        return fail(str(error), BAD_INPUT)
    except _out_of_reach() as error:
        return fail(f"{error}{_advice(error)}", OUT_OF_REACH)
    return 0


def fail(message: str, code: int) -> int:
    """Say why on stderr; returns the code, for whoever ends with it."""
    click.echo(f"gpustack-ctl: {message}", err=True)
    return code


def print_json(document: Any) -> None:
    """The one document that stdout carries with `--output json`."""
    import orjson

    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def await_(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run an async function to its end. Tasks may fail together: the failure that a person can mend is the one told."""
    import anyio

    try:
        return anyio.run(function, *arguments)
    except BaseExceptionGroup as group:
        failures = list(_leaves(group))
        expected = (*_bad_input(), *_out_of_reach(), click.ClickException)
        told = next((failure for failure in failures if isinstance(failure, expected)), None)
        if told is None and len(failures) > 1:
            raise
        raise told or failures[0] from group


def _bad_input() -> tuple[type[Exception], ...]:
    """What is wrong with something that a person wrote.

    Like all that only a failure needs, it is imported when one is there: a running role should not carry it.
    """
    from gpustack_ctl.agent.config import BadConfigError
    from gpustack_ctl.documents.marked import DocumentError
    from gpustack_ctl.kube.errors import BadKubeconfig

    return (BadConfigError, BadKubeconfig, DocumentError)


def _out_of_reach() -> tuple[type[Exception], ...]:
    """What is wrong with the cluster, or with this host."""
    from gpustack_ctl.agent.detectors.detector import DetectionError
    from gpustack_ctl.agent.journal import JournalError
    from gpustack_ctl.agent.one_per_node import AgentRunningError
    from gpustack_ctl.kube.errors import KubeError
    from gpustack_ctl.localcluster.errors import LocalClusterError
    from gpustack_ctl.telemetry.health import CannotServeError
    from gpustack_ctl.webhooks.server import CannotListenError

    return (
        AgentRunningError,
        CannotListenError,
        CannotServeError,
        DetectionError,
        JournalError,
        KubeError,
        LocalClusterError,
    )


def _advice(error: Exception) -> str:
    """What to do about an API server's no, or its silence; other errors bring their own."""
    from gpustack_ctl.agent.detectors.detector import DetectionError
    from gpustack_ctl.kube.errors import Forbidden, Unreachable

    match error:
        case DetectionError(remedy=remedy) if remedy:
            return f"; {remedy}"
        case Unreachable():
            return "; is the cluster up, and are --kubeconfig and --context the right ones?"
        case Forbidden():
            return "; name a user who may with --kubeconfig or --context, or give this one the right"
        case _:
            return ""


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for failure in group.exceptions:
        if isinstance(failure, BaseExceptionGroup):
            yield from _leaves(failure)
        else:
            yield failure
