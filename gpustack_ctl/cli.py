"""The commands: parse, compose, run. Nothing is decided here.

Exit codes are one table for every command: 0 done or yes, 1 no (refused, not fitting, the story failed), 2 bad input
or usage, 3 the cluster or this host could not be reached. With `--output json` stdout carries one JSON document.
Every flag also reads `GPUSTACK_CTL_<FLAG>`. What a command needs is imported when it runs: a node agent should not
carry the local cluster in its memory.
"""

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gpustack_ctl import __version__

F = TypeVar("F", bound=Callable[..., Any])

NO, BAD_INPUT, OUT_OF_REACH = 1, 2, 3


def main() -> None:
    """Run the command line and exit with the table's code."""
    sys.exit(_run(sys.argv[1:]))


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="gpustack-ctl")
def cli() -> None:
    """Hand out whole GPUs, shares, memory slices and MIG partitions from one Kueue pool.

    A Pod passes five gates before it gets a device: (1) the Pod webhook reads and folds its request, (2) Kueue admits
    it by the pool's credits, (3) the AdmissionCheck asks the per-card ledger, (4) scheduler and kubelet count the
    node's keys, (5) the device plugin settles the card.

    \b
    See it happen:       gpustack-ctl demo
    Against a cluster:   gpustack-ctl run --roles manager --kubeconfig FILE --webhook-url https://HOST:9443
    """


def flag(name: str, **attributes: Any) -> Callable[[F], F]:
    """A click option that also reads `GPUSTACK_CTL_<FLAG>`."""
    variable = "GPUSTACK_CTL_" + name.split("/")[0].removeprefix("--").upper().replace("-", "_")
    return click.option(name, envvar=variable, show_default=True, show_envvar=True, **attributes)


def flags(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several flags as one decorator, shown by `--help` in the order given."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


connection_flags = flags(
    flag(
        "--kubeconfig",
        type=click.Path(dir_okay=False),
        help="Cluster to use; else KUBECONFIG, ~/.kube/config, the Pod's own.",
    ),
    flag("--context", help="Context inside the kubeconfig."),
)
log_flags = flags(
    flag(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        help="Least level logged.",
    ),
    flag(
        "--log-format",
        type=click.Choice(["auto", "json", "text"]),
        default="auto",
        help="auto: JSON in a Pod, text elsewhere.",
    ),
)
output_flag = flag(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: one document on stdout, nothing else there.",
)

manager_flags = flags(
    flag("--namespace", default="gpustack-system", help="Where the manager keeps its Secret and its lease."),
    flag("--webhook-port", type=int, default=9443, help="Port the admission webhooks listen on; 0 takes a free one."),
    flag("--webhook-url", help="Base URL the API server calls the webhooks at, when no Service leads to them."),
    flag(
        "--webhook-cert-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="tls.crt, tls.key and ca.crt to serve with, instead of self-made ones.",
    ),
    flag("--leader-elect/--no-leader-elect", default=True, help="Let one replica at a time run the controllers."),
)
agent_flags = flags(
    flag(
        "--node-name",
        default=socket.gethostname,
        show_default="this host's name",
        help="The Node this agent speaks for.",
    ),
    flag("--detector", type=click.Choice(["simulated"]), default="simulated", help="Where the cards come from."),
    flag(
        "--inventory", type=click.Path(dir_okay=False, path_type=Path), help="YAML inventory of the simulated detector."
    ),
    flag(
        "--kubelet-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("/var/lib/kubelet"),
        help="The kubelet's directory, with its sockets.",
    ),
    flag(
        "--state-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("/var/lib/gpustack/operator"),
        help="The agent's journal and markers.",
    ),
)


@cli.command()
@connection_flags
@manager_flags
@flag("--metrics-port", type=int, default=8080, help="Port of /healthz, /readyz and /metrics; 0 takes a free one.")
@log_flags
def manager(**values: Any) -> None:
    """Run the controllers and the admission webhooks."""
    _run_roles(values, manager=True)


@cli.group(invoke_without_command=True)
@connection_flags
@agent_flags
@flag("--metrics-port", type=int, default=8081, help="Port of /healthz, /readyz and /metrics; 0 takes a free one.")
@log_flags
@click.pass_context
def node_agent(context: click.Context, **values: Any) -> None:
    """Detect this node's cards, serve them to the kubelet, keep their ledger."""
    if context.invoked_subcommand is None:
        _run_roles(values, agent=True)


@cli.command()
@flag("--roles", default="manager,node-agent", help="Comma-separated: manager, node-agent.")
@connection_flags
@manager_flags
@agent_flags
@flag("--metrics-port", type=int, default=8080, help="Port of /healthz, /readyz and /metrics; 0 takes a free one.")
@log_flags
def run(roles: str, **values: Any) -> None:
    """Run both roles in one process, on one informer layer: a laptop, or a one-node kind cluster."""
    chosen = {role.strip() for role in roles.split(",") if role.strip()}
    unknown = chosen - {"manager", "node-agent"}
    if unknown or not chosen:
        raise click.BadParameter(f"{roles!r}: name manager, node-agent or both", param_hint="--roles")
    _run_roles(values, manager="manager" in chosen, agent="node-agent" in chosen)


@cli.command()
@flag("--output", type=click.Choice(["yaml", "json"]), default="yaml", help="json: one List on stdout.")
def crds(output: str) -> None:
    """Print the custom resource definitions, ready for `kubectl apply -f -`."""
    from gpustack_ctl.crds import render

    click.echo(render(output), nl=False)
