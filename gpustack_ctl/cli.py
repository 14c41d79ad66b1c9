"""The commands: parse, compose, run. Nothing is decided here.

Exit codes are one table for every command: 0 done or yes, 1 no (refused, not fitting, the story failed), 2 bad input
or usage, 3 the cluster or this host could not be reached. With `--output json` stdout carries one JSON document.
Every flag also reads `GPUSTACK_CTL_<FLAG>`. What a command needs is imported when it runs: a node agent should not
carry the local cluster in its memory.
"""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gpustack_ctl import __version__
from gpustack_ctl.simulate.help import SCENARIO_KEYS

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
def node_agent(ctx: click.Context, /, **values: Any) -> None:
    """Detect this node's cards, serve them to the kubelet, keep their ledger."""
    if ctx.invoked_subcommand is None:
        _run_roles(values, agent=True)


@node_agent.command()
@node_name_flag
@detector_flags
@flag("--record", type=click.Path(dir_okay=False, path_type=Path), help="Keep what the driver said, for `replay`.")
@output_flag
@log_flags
def detect(record: Path | None, output: str, **values: Any) -> None:
    """Look at this host's accelerators once: the Devices spec that the agent would publish.

    Exit code 3: the driver does not answer. A host without a card is an answer.
    """
    from gpustack_ctl.agent import detect as look

    _logs(values)
    found = _await(look.detect, _agent_config(values), record)
    if output == "json":
        _print_json(found.spec())
    else:
        click.echo("\n".join(look.text(found)))


@node_agent.command()
@connection_flags
@agent_flags
@output_flag
@log_flags
def preflight(output: str, **values: Any) -> None:
    """Say what would block an allocation on this host; exit code 1 when something would."""
    from gpustack_ctl.agent.preflight import State
    from gpustack_ctl.agent.preflight import preflight as check

    async def findings() -> list[Any]:
        found = check(_agent_config(values), kubeconfig=values["kubeconfig"], context=values["context"])
        return [finding async for finding in found]

    _logs(values)
    found = _await(findings)
    if output == "json":
        _print_json([finding.document() for finding in found])
    else:
        for finding in found:
            click.echo(f"{finding.state:13} {finding.check}: {finding.reason}")
            if finding.remedy:
                click.echo(f"{'':13} → {finding.remedy}")
    if any(finding.state is State.UNAVAILABLE for finding in found):
        sys.exit(NO)


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
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(dir_okay=False, allow_dash=True))
@flag(
    "--instance-types",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="InstanceTypes to judge by; comes before --kubeconfig.",
)
@flag("--kubeconfig", type=click.Path(dir_okay=False), help="Judge by the InstanceTypes of this cluster.")
@flag("--context", help="Context inside the kubeconfig.")
@output_flag
@log_flags
def lint(files: tuple[str, ...], output: str, **values: Any) -> None:
    """Say what gate 1 would do to the Pods of manifests, without sending them; `-` reads stdin.

    Any kind with a Pod template is judged by the webhook's own rules. MiB and profiles are measured by a pool, so they
    need --instance-types or a cluster. Exit code 0: all admitted, 1: some refused, 2: a file cannot be read.
    """
    from gpustack_ctl.lint import report
    from gpustack_ctl.lint.run import lint as judged

    _logs(values)
    found = _await(judged, files, values["instance_types"], values["kubeconfig"], values["context"])
    if output == "json":
        _print_json(report.document(found))
    else:
        click.echo("\n".join(report.text(found)))
    if not all(finding.admitted for finding in found):
        sys.exit(NO)


@cli.command()
@click.argument("kind", type=click.Choice(["pod", "workload"]))
@click.argument("name")
@flag("--namespace", "-n", default="default", help="Where it is.")
@connection_flags
@output_flag
@log_flags
def explain(kind: str, name: str, namespace: str, output: str, **values: Any) -> None:
    """Say gate by gate what each saw of a Pod or a Workload, what it answered, and what would have to change.

    Everything is read from live objects. Exit code 1: there is no such object.
    """
    from gpustack_ctl.explain import report
    from gpustack_ctl.explain.run import explain as explained
    from gpustack_ctl.explain.subjects import NoSuchObjectError

    _logs(values)
    try:
        found = _await(explained, kind, name, namespace, values["kubeconfig"], values["context"])
    except NoSuchObjectError as error:
        sys.exit(_fail(str(error), NO))
    if output == "json":
        _print_json(report.document(found))
    else:
        click.echo("\n".join(report.text(found)))


@cli.command()
@flag("--watch", is_flag=True, help="Go on showing it as it changes, until Ctrl-C.")
@connection_flags
@output_flag
@log_flags
def top(watch: bool, output: str, **values: Any) -> None:
    """Show pools with what may still be asked of them, every card with its holders, and who waits for what."""
    from gpustack_ctl.roles import until_signal
    from gpustack_ctl.top import run as fleet
    from gpustack_ctl.top.document import document
    from gpustack_ctl.top.tables import stdout, tables

    if watch and output == "json":
        raise click.BadParameter("a watch is no single document; leave one of the two out", param_hint="--watch")
    _logs({**values, "log_level": "warning" if values["log_level"] == "info" else values["log_level"]})
    console = stdout()
    where = values["kubeconfig"], values["context"]
    if watch:
        _await(until_signal, lambda: fleet.watch(console, *where))
        return
    seen = _await(fleet.look, *where)
    if output == "json":
        _print_json(document(seen))
    else:
        console.print(tables(seen))


@cli.command()
@flag("--output", type=click.Choice(["yaml", "json"]), default="yaml", help="json: one List on stdout.")
def crds(output: str) -> None:
    """Print the custom resource definitions, ready for `kubectl apply -f -`."""
    from gpustack_ctl import crds as definitions

    manifests = definitions.all()
    if output == "json":
        _print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
        return
    click.echo("---\n".join(definitions.as_yaml(manifest) for manifest in manifests), nl=False)


@cli.command(epilog=SCENARIO_KEYS)
@click.argument("scenario", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@output_flag
def simulate(scenario: Path, output: str) -> None:
    """Run the gates over a fleet that a file describes: no cluster, simulated time.

    Says of each Workload what gates 1, 2 and 3 answered, which cards it got and when it ran, and of the fleet how well
    it was used and how much room nobody could use.
    """
    from rich.console import Console

    from gpustack_ctl.accel.families import manufacturers
    from gpustack_ctl.simulate import report
    from gpustack_ctl.simulate.reading import load_scenario
    from gpustack_ctl.simulate.run import simulate as run_scenario

    table = manufacturers(os.environ)
    described = load_scenario(scenario, table=table)
    with report.progress() as progress:
        results = run_scenario(described, table=table, progress=progress)
    if output == "json":
        results.write_json(sys.stdout)
        return
    report.show(results, Console())


@cli.group()
def local() -> None:
    """A real cluster from processes on this machine: etcd, Kubernetes, Kueue and a kubelet; no container engine."""


directory_flag = flag(
    "--dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run directory; default $XDG_STATE_HOME/gpustack-ctl/local.",
)


@local.command()
@directory_flag
@flag("--no-kubelet", is_flag=True, help="Control plane and Kueue only: needs neither root nor containerd.")
@flag("--fake-nodes", type=click.IntRange(min=0), default=0, help="Nodes without a kubelet, for scale.")
@output_flag
@log_flags
def up(dir: Path | None, no_kubelet: bool, fake_nodes: int, output: str, **values: Any) -> None:  # noqa: A002
    """Bring the cluster up, or say that it is; builds the programs first when the cache has none."""
    from gpustack_ctl.accel.families import manufacturers
    from gpustack_ctl.accel.kueue_config import kueue_configuration
    from gpustack_ctl.localcluster import cluster
    from gpustack_ctl.localcluster.spec import ClusterSpec, default_directory

    _logs(values)
    spec = ClusterSpec(
        directory=dir or default_directory(),
        kubelet=not no_kubelet,
        fake_nodes=fake_nodes,
        kueue=kueue_configuration(manufacturers()),
    )
    _show_status(_await(cluster.up, spec), output)


@local.command()
@directory_flag
@log_flags
def down(dir: Path | None, **values: Any) -> None:  # noqa: A002
    """End every process of the cluster and remove all it left but its logs."""
    from gpustack_ctl.localcluster import cluster
    from gpustack_ctl.localcluster.spec import default_directory

    _logs(values)
    directory = dir or default_directory()
    ended = _await(cluster.down, directory)
    click.echo(f"ended the cluster in {directory}" if ended else f"no cluster in {directory}", err=True)


@local.command()
@directory_flag
@output_flag
def status(dir: Path | None, output: str) -> None:  # noqa: A002
    """Say what runs, by asking the programs themselves; exit code 1 when the cluster is not up."""
    from gpustack_ctl.localcluster import cluster
    from gpustack_ctl.localcluster.spec import default_directory

    found = _await(cluster.status, dir or default_directory())
    _show_status(found, output)
    if not found.up:
        sys.exit(NO)


@cli.command()
@connection_flags
@flag("--once", is_flag=True, help="End when the story is told; otherwise it stays on stage until Ctrl-C.")
@flag("--keep", is_flag=True, help="Leave the local cluster up at the end and print its kubeconfig.")
@flag("--inventory", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Other cards than four A10G.")
@flag("--install-kueue", is_flag=True, help="With --kubeconfig: install Kueue there when it is missing.")
@flag("--webhook-url", help="With --kubeconfig: base URL at which that API server reaches this process.")
@flag("--node-name", help="With --kubeconfig: the Node this machine is; default its only Ready one.")
@flag(
    "--kubelet-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("/var/lib/kubelet"),
    help="With --kubeconfig: the kubelet's directory, with its sockets.",
)
@output_flag
@log_flags
def demo(kubeconfig: str | None, context: str | None, output: str, **values: Any) -> None:
    """Send six Pods through the five gates on a real cluster, and show what each gate saw and answered.

    Without --kubeconfig a cluster is made on this machine (Linux, root) and is gone at the end. Exit code 0 only when
    the whole story happened.
    """
    from gpustack_ctl.demo.play import Options, play

    _logs({**values, "log_level": "error" if values["log_level"] == "info" else values["log_level"]})
    document = _await(
        play,
        Options(
            kubeconfig=kubeconfig,
            context=context,
            node=values["node_name"],
            kubelet_dir=values["kubelet_dir"],
            webhook_url=values["webhook_url"],
            install_kueue=values["install_kueue"],
            inventory=values["inventory"],
            once=values["once"],
            keep=values["keep"],
        ),
    )
    if output == "json":
        _print_json(document)
    if not document["ok"]:
        sys.exit(NO)


def _run(arguments: list[str]) -> int:
    """Run the command line; every expected failure becomes one plain message and its exit code."""
    try:
        cli.main(arguments, prog_name="gpustack-ctl", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return BAD_INPUT
    except click.Abort:
        return 130
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else NO
    except _bad_input() as error:
        return _fail(str(error), BAD_INPUT)
    except _out_of_reach() as error:
        return _fail(f"{error}{_advice(error)}", OUT_OF_REACH)
    return 0


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
    from gpustack_ctl.agent.one_per_node import AgentRunningError
    from gpustack_ctl.kube.errors import KubeError
    from gpustack_ctl.localcluster.errors import LocalClusterError
    from gpustack_ctl.telemetry.health import CannotServeError
    from gpustack_ctl.webhooks.server import CannotListenError

    return (AgentRunningError, CannotListenError, CannotServeError, DetectionError, KubeError, LocalClusterError)


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


def _run_roles(values: dict[str, Any], *, manager: bool = False, agent: bool = False) -> None:
    from gpustack_ctl import roles
    from gpustack_ctl.kube.client import Kube

    _logs(values)
    manager_config, agent_config = (
        _manager_config(values) if manager else None,
        _agent_config(values) if agent else None,
    )

    async def serve() -> None:
        async with Kube.connect(kubeconfig=values["kubeconfig"], context=values["context"]) as kube:
            await roles.serve(kube, manager=manager_config, agent=agent_config, metrics_port=values["metrics_port"])

    _await(roles.until_signal, serve)


def _manager_config(values: dict[str, Any]) -> Any:
    from gpustack_ctl.manager import ManagerConfig
    from gpustack_ctl.webhooks.run import WebhookConfig

    try:
        webhook = WebhookConfig(
            port=values["webhook_port"],
            url=values["webhook_url"],
            cert_dir=values["webhook_cert_dir"],
            namespace=values["namespace"],
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--webhook-url") from None
    return ManagerConfig(namespace=values["namespace"], leader_elect=values["leader_elect"], webhook=webhook)


def _agent_config(values: dict[str, Any]) -> Any:
    from gpustack_ctl.agent.config import NodeAgentConfig

    told = ("node_name", "detector", "inventory", "kubelet_dir", "state_dir")
    return NodeAgentConfig(**{name: values[name] for name in told if name in values})


def _show_status(found: Any, output: str) -> None:
    """`local up` and `local status`: the document, or a line per program."""
    if output == "json":
        _print_json(found.document())
        return
    for program in found.programs:
        click.echo(f"{program.name:26} {'ready' if program.ready else 'DOWN':6} pid {program.pid:<8} {program.log}")
    click.echo(f"export KUBECONFIG={found.kubeconfig}" if found.up else f"the cluster in {found.directory} is not up")


def _await(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run an async function to its end; a group of one exception is that exception."""
    import anyio

    try:
        return anyio.run(function, *arguments)
    except BaseExceptionGroup as group:
        raise _only(group) from group


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]  # type: ignore[assignment]
    return group


def _logs(values: dict[str, Any]) -> None:
    from gpustack_ctl.telemetry import logs

    logs.configure(level=values["log_level"], format=values["log_format"])


def _print_json(document: Any) -> None:
    import orjson

    click.echo(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())


def _fail(message: str, code: int) -> int:
    click.echo(f"gpustack-ctl: {message}", err=True)
    return code
