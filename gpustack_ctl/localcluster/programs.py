"""The control plane's programs and how each is started: on 127.0.0.1, alone, with nothing to wait for.

Leader election is off everywhere, for there is nobody to elect against and a restart would wait for the old lease.
"""

from dataclasses import dataclass

import orjson

from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.processes import free_ports
from gpustack_ctl.localcluster.run import Program, Run
from gpustack_ctl.localcluster.users import EVERYTHING, issue_kubeconfig

_LOOPBACK = "--bind-address=127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    api: int
    controller_manager: int
    scheduler: int
    kueue_webhook: int
    kueue_health: int
    kueue_metrics: int

    @classmethod
    def free(cls) -> "Ports":
        return cls(*free_ports(8))


def etcd(run: Run, assets: Assets, ports: Ports) -> Program:
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    flags = (
        f"--data-dir={run.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--unsafe-no-fsync",  # survives a killed process; a run is not meant to survive a killed machine
    )
    return Program("etcd", (assets.program("etcd"), *flags), f"{client}/readyz")


def api_server(run: Run, assets: Assets, ports: Ports, *, audit: bool) -> Program:
    pki = run.authority
    serving, client = pki.issue("kube-apiserver"), pki.issue("kube-apiserver-kubelet-client")
    accounts = pki.signing_key()
    flags = (
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        _LOOPBACK,
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports.api}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={pki.certificate}",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        f"--kubelet-certificate-authority={pki.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--disable-admission-plugins=ServiceAccount",  # a Pod need not wait for its namespace's account to appear
        "--allow-privileged=true",
        "--profiling=false",
    )
    argv = (assets.program("kube-apiserver"), *flags, *(_audit_flags(run) if audit else ()))
    return Program("kube-apiserver", argv, f"https://127.0.0.1:{ports.api}/readyz")


def controller_manager(run: Run, assets: Assets, ports: Ports) -> Program:
    pki = run.authority
    flags = (
        *_served(run, "kube-controller-manager", ports.controller_manager, groups=EVERYTHING),
        f"--service-account-private-key-file={pki.directory / 'service-accounts.key'}",
        f"--root-ca-file={pki.certificate}",
        "--use-service-account-credentials=false",  # an account for each controller costs seconds at every start
    )
    argv = (assets.program("kube-controller-manager"), *flags)
    return Program("kube-controller-manager", argv, f"https://127.0.0.1:{ports.controller_manager}/healthz")


def scheduler(run: Run, assets: Assets, ports: Ports) -> Program:
    flags = _served(run, "kube-scheduler", ports.scheduler)
    argv = (assets.program("kube-scheduler"), *flags)
    return Program("kube-scheduler", argv, f"https://127.0.0.1:{ports.scheduler}/readyz")


def _served(run: Run, name: str, port: int, *, groups: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Flags of a program that is a client of the API server and answers probes of its own."""
    kubeconfig = issue_kubeconfig(run, f"system:{name}", groups=groups, name=name)
    pair = run.authority.pair(name)
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",  # for aggregated API servers, of which there are none
        _LOOPBACK,
        f"--secure-port={port}",
        f"--tls-cert-file={pair.certificate}",
        f"--tls-private-key-file={pair.key}",
        "--leader-elect=false",
        "--profiling=false",
    )


def _audit_flags(run: Run) -> tuple[str, ...]:
    """Who wrote what: one line for each finished request. Leases beat for ever and say nothing."""
    policy = run.directory / "config" / "audit.json"
    policy.parent.mkdir(parents=True, exist_ok=True)
    leases = {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]}
    document = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [leases, {"level": "Metadata"}],
    }
    policy.write_bytes(orjson.dumps(document))
    return (f"--audit-policy-file={policy}", f"--audit-log-path={run.log('audit')}", "--audit-log-mode=batch")
