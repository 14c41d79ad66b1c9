"""Kueue on this machine: its configuration, and its CRDs and webhooks as it ships them, pointed at a local port.

A real installation reaches the webhooks through a Service; here nothing routes Services, so each webhook gets a URL.
"""

import base64
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson
import yaml

from gpustack_ctl.localcluster.api import Obj
from gpustack_ctl.localcluster.assets import Assets
from gpustack_ctl.localcluster.run import Program, Run
from gpustack_ctl.localcluster.users import EVERYTHING, issue_kubeconfig

NAMESPACE = "kueue-system"

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The CRDs are 1.5 MB of YAML: five seconds in Python, half a second in C."""

_OWN_NAMESPACES = ["kube-system", NAMESPACE]
_KUEUE_GROUP = "kueue.x-k8s.io"
_SERVED = {"batch/job": "jobs", "pod": "pods"}
"""Framework of the configuration → plural that its webhooks are registered for."""


def configuration(
    wanted: Mapping[str, Any], *, webhook_port: int, health_port: int, metrics_port: int, certificates: Path
) -> Obj:
    """Kueue's Configuration: what a local run fixes, over what the caller wants, over what this product needs."""
    needed: Obj = {
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "resources": {"quotaCheckStrategy": "IgnoreUndeclared"},
        "clientConnection": {"qps": 300, "burst": 500},
        "featureGates": {"AssignQueueLabelsForPods": False, "TopologyAwareScheduling": True},
    }
    fixed: Obj = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics_port}"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        # The visibility API would need an aggregated API server, which the API server reaches through a Service.
        "featureGates": {"VisibilityOnDemand": False},
    }
    return _merged(_merged(needed, wanted), fixed)


def program(run: Run, assets: Assets, config: Obj) -> Program:
    """Kueue, in a mount namespace of its own.

    It reads the certificate of its metrics from /etc/kueue and from nowhere else, so this process alone sees another
    /etc. (It needs nothing else there; without root a user namespace lends the right to mount.)
    """
    etc = run.directory / "kueue-etc"
    file = run.directory / "config" / "kueue.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))
    unshare = ("unshare", "--mount", "--propagation", "private", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    script = 'mount --bind "$0" /etc && exec "$@"'
    # unshare with a user namespace forgets a death signal asked for before it, so it is asked for again behind it.
    tether = ("setpriv", "--pdeathsig", "KILL", "--") if run.die_with_parent else ()
    argv = (*unshare, "--", "sh", "-c", script, str(etc), *tether, assets.program("kueue"), f"--config={file}")
    probe = f"http://{config['health']['healthProbeBindAddress']}/readyz"
    kubeconfig = issue_kubeconfig(run, "kueue", groups=EVERYTHING)
    return Program("kueue", argv, probe, {"KUBECONFIG": str(kubeconfig)})


def issue_certificates(run: Run) -> Path:
    """Serving certificates where Kueue looks for them; returns the webhooks' directory."""
    webhooks, metrics = run.authority.directory / "kueue-webhooks", run.directory / "kueue-etc/kueue/metrics/certs"
    pair = run.authority.issue("kueue")
    for directory in (webhooks, metrics):
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copy(pair.certificate, directory / "tls.crt")
        shutil.copy(pair.key, directory / "tls.key")
    return webhooks


def definitions(manifests: Path) -> list[Obj]:
    """Kueue's CustomResourceDefinitions, serving only the version that is stored.

    The older version is converted by a webhook that the API server would call for every change of every object, for
    the sake of a version that nobody here speaks; served without it, it would be read wrong.
    """
    definitions = [document for file in sorted((manifests / "crd").glob("*.yaml")) for document in _documents(file)]
    for definition in definitions:
        for version in definition["spec"]["versions"]:
            version["served"] = version["storage"]
    return definitions


def webhooks(manifests: Path, *, frameworks: Iterable[str], webhook_port: int, authority: Path) -> list[Obj]:
    """Kueue's two webhook configurations, with the webhooks of the enabled frameworks only.

    Kueue serves no webhook of a framework that is off, so one left in place would refuse every such object.
    """
    frameworks = list(frameworks)
    configurations = _documents(manifests / "webhooks.yaml")
    for entry in configurations:
        entry["metadata"]["name"] = "kueue-" + entry["metadata"]["name"]
        entry["webhooks"] = [webhook for webhook in entry["webhooks"] if _served(webhook, frameworks)]
        for webhook in entry["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = _client_config(path, port=webhook_port, authority=authority)
            if not _is_kueues(webhook):
                webhook["namespaceSelector"] = {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": _OWN_NAMESPACES}
                    ]
                }
    return configurations


def _documents(file: Path) -> list[Obj]:
    return [document for document in yaml.load_all(file.read_text(), _LOADER) if document]


def _served(webhook: Obj, frameworks: list[str]) -> bool:
    plurals = {_SERVED.get(framework, framework.split("/")[-1] + "s") for framework in frameworks}
    return _is_kueues(webhook) or any(set(rule["resources"]) & plurals for rule in webhook["rules"])


def _is_kueues(webhook: Obj) -> bool:
    return any(_KUEUE_GROUP in rule["apiGroups"] for rule in webhook["rules"])


def _client_config(path: str, *, port: int, authority: Path) -> Obj:
    return {
        "url": f"https://127.0.0.1:{port}{path}",
        "caBundle": base64.b64encode(authority.read_bytes()).decode(),
    }


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Obj:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged
