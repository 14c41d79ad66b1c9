"""Slim copies: what the manager's cache leaves out of Pods and Nodes.

A cluster has far more Pods than anything else, and most of a Pod is how its containers run: environment, volumes,
probes, what became of each container. A Node's largest part is the list of images on its disk. Nobody here asks for
any of it. Named is what goes, not what stays, so that a reader who needs one field more finds it.
"""

from collections.abc import Iterable

from gpustack_ctl.kube.objects import Obj

_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")
_OF_A_CONTAINER = frozenset(
    {
        "args",
        "command",
        "env",
        "envFrom",
        "lifecycle",
        "livenessProbe",
        "ports",
        "readinessProbe",
        "securityContext",
        "startupProbe",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeDevices",
        "volumeMounts",
    }
)
_OF_A_SPEC = frozenset({"dnsConfig", "hostAliases", "imagePullSecrets", "securityContext", "tolerations", "volumes"})
_OF_A_STATUS = frozenset(
    {"containerStatuses", "ephemeralContainerStatuses", "hostIPs", "initContainerStatuses", "podIPs"}
)
_OF_A_NODE_STATUS = frozenset({"images", "volumesAttached", "volumesInUse"})


def slim_pod(pod: Obj) -> Obj:
    """The Pod without how its containers run."""
    spec = _without(pod["spec"], _OF_A_SPEC)
    for field in _CONTAINER_LISTS:
        if field in spec:
            spec[field] = [_without(container, _OF_A_CONTAINER) for container in spec[field]]
    return {**pod, "spec": spec, "status": _without(pod.get("status") or {}, _OF_A_STATUS)}


def slim_node(node: Obj) -> Obj:
    """The Node without what lies on its disk."""
    return {**node, "status": _without(node.get("status") or {}, _OF_A_NODE_STATUS)}


def _without(fields: Obj, dropped: Iterable[str]) -> Obj:
    return {name: value for name, value in fields.items() if name not in dropped}
