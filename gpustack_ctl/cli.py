"""The commands: parse, compose, run. Nothing is decided here.

Exit codes are one table for every command (`outcome`). With `--output json` stdout carries one JSON document only. What
a command needs is imported when it runs: a node agent should not carry the local cluster in its memory.
"""

import os
import sys
from pathlib import Path
from typing import Any

import click

from gpustack_ctl import __version__
from gpustack_ctl.flags import (
    agent_flags,
    connection_flags,
    detector_flags,
    directory_flag,
    flag,
    log_flags,
    manager_flags,
    node_name_flag,
    output_flag,
)
from gpustack_ctl.outcome import NO, await_, exit_code, fail, print_json
from gpustack_ctl.simulate.help import SCENARIO_KEYS


def main() -> None:
    """Run the command line and exit with the table's code."""
    sys.exit(exit_code(cli, sys.argv[1:]))


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
    found = await_(look.detect, _agent_config(values), record)
    if output == "json":
        print_json(found.spec())
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
    found = await_(findings)
    if output == "json":
        print_json([finding.document() for finding in found])
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
    found = await_(judged, files, values["instance_types"], values["kubeconfig"], values["context"])
    if output == "json":
        print_json(report.document(found))
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
        found = await_(explained, kind, name, namespace, values["kubeconfig"], values["context"])
    except NoSuchObjectError as error:
        sys.exit(fail(str(error), NO))
    if output == "json":
        print_json(report.document(found))
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
        await_(until_signal, lambda: fleet.watch(console, *where))
        return
    seen = await_(fleet.look, *where)
    if output == "json":
        print_json(document(seen))
    else:
        console.print(tables(seen))


@cli.command()
@flag("--output", type=click.Choice(["yaml", "json"]), default="yaml", help="json: one List on stdout.")
def crds(output: str) -> None:
    """Print the custom resource definitions, ready for `kubectl apply -f -`."""
    from gpustack_ctl import crds as definitions

    manifests = definitions.all()
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
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
    _show_status(await_(cluster.up, spec), output)


@local.command()
@directory_flag
@log_flags
def down(dir: Path | None, **values: Any) -> None:  # noqa: A002
    """End every process of the cluster and remove all it left but its logs."""
    from gpustack_ctl.localcluster import cluster
    from gpustack_ctl.localcluster.spec import default_directory

    _logs(values)
    directory = dir or default_directory()
    ended = await_(cluster.down, directory)
    click.echo(f"ended the cluster in {directory}" if ended else f"no cluster in {directory}", err=True)


@local.command()
@directory_flag
@output_flag
def status(dir: Path | None, output: str) -> None:  # noqa: A002
    """Say what runs, by asking the programs themselves; exit code 1 when the cluster is not up."""
    from gpustack_ctl.localcluster import cluster
    from gpustack_ctl.localcluster.spec import default_directory

    found = await_(cluster.status, dir or default_directory())
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
    document = await_(
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
        print_json(document)
    if not document["ok"]:
        sys.exit(NO)


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

    await_(roles.until_signal, serve)


def _manager_config(values: dict[str, Any]) -> Any:
    from gpustack_ctl.manager import ManagerConfig, reserve_after, topology_levels
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
    try:  # before there is a cluster to wait for
        reserve_after(os.environ)
        topology_levels(os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return ManagerConfig(namespace=values["namespace"], leader_elect=values["leader_elect"], webhook=webhook)


def _agent_config(values: dict[str, Any]) -> Any:
    from gpustack_ctl.agent.config import NodeAgentConfig

    told = ("node_name", "detector", "inventory", "kubelet_dir", "state_dir")
    return NodeAgentConfig(**{name: values[name] for name in told if name in values})


def _show_status(found: Any, output: str) -> None:
    """`local up` and `local status`: the document, or a line per program."""
    if output == "json":
        print_json(found.document())
        return
    for program in found.programs:
        click.echo(f"{program.name:26} {'ready' if program.ready else 'DOWN':6} pid {program.pid:<8} {program.log}")
    click.echo(f"export KUBECONFIG={found.kubeconfig}" if found.up else f"the cluster in {found.directory} is not up")


def _logs(values: dict[str, Any]) -> None:
    from gpustack_ctl.telemetry import logs

    logs.configure(level=values["log_level"], format=values["log_format"])
