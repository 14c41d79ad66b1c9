"""Flags that several commands share.

Every flag also reads `GPUSTACK_CTL_<FLAG>`, and says so in `--help`.
"""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def flag(name: str, *short: str, **attributes: Any) -> Callable[[F], F]:
    """A click option that also reads `GPUSTACK_CTL_<FLAG>`."""
    variable = "GPUSTACK_CTL_" + name.split("/")[0].removeprefix("--").upper().replace("-", "_")
    attributes = {"show_default": True, **attributes}
    return click.option(name, *short, envvar=variable, show_envvar=True, **attributes)


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
node_name_flag = flag(
    "--node-name",
    default=socket.gethostname,
    show_default="this host's name",
    help="The Node this agent speaks for.",
)
detector_flags = flags(
    flag(
        "--detector",
        type=click.Choice(["nvml", "simulated", "replay"]),
        default="nvml",
        help="Where the cards come from: NVIDIA's driver, an inventory, a recording.",
    ),
    flag(
        "--inventory",
        type=click.Path(dir_okay=False, path_type=Path),
        help="simulated: YAML list of cards; replay: what `node-agent detect --record` wrote.",
    ),
)
agent_flags = flags(
    node_name_flag,
    detector_flags,
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
directory_flag = flag(
    "--dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run directory; default $XDG_STATE_HOME/gpustack-ctl/local.",
)
