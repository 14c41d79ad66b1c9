"""The Workload webhook: the one writer of node affinity into Kueue's Workloads.

Topology-aware scheduling adds up a node's keys and cannot see how its room is spread over cards. What it must know is
put into the PodSets: that the node's per-card labels leave room for one Pod, and the placement pin which the admission
check left in the Workload's annotation when it held it. Both stand in the Workload only. Kueue copies no affinity to
the Pods, and must not: a kubelet that restarts judges its running Pods against the labels as they are by then.

It has a say in a Workload of ours alone: its LocalQueue leads to a ClusterQueue with our mark, with an InstanceType of
the same name that names accelerators. It speaks while there is no quota reservation, since a PodSet cannot change
under one. It never refuses, and a Workload that it never saw is admitted like any other: it saves rounds of placement
and holds up nobody.
"""

from gpustack_ctl.accel.entrances import pool_behind
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.labels import PLACEMENT_PIN
from gpustack_ctl.accel.pins import fit_expressions, parse_pin, render
from gpustack_ctl.accel.pools import Pool
from gpustack_ctl.accel.requests import read_pod
from gpustack_ctl.crds.setting import WORKLOAD_FIT_AFFINITY, is_on
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import Obj, annotations_of, is_true, namespace_of
from gpustack_ctl.kube.resources import CLUSTER_QUEUES, INSTANCE_TYPES, LOCAL_QUEUES, SETTINGS, WORKLOADS
from gpustack_ctl.webhooks.patch import difference
from gpustack_ctl.webhooks.review import Allowed, Question, Verdict, within
from gpustack_ctl.webhooks.webhook import Webhook

# Decided in the API server, so that the writes of a Workload's admitted life cost no call.
_CONDITIONS = {
    "no-quota-is-reserved": (
        "oldObject == null || !has(oldObject.status) || !has(oldObject.status.conditions) || "
        "!oldObject.status.conditions.exists(c, c.type == 'QuotaReserved' && c.status == 'True')"
    )
}


class WorkloadPins:
    """Renders pins by the queues, pools and settings that are known now."""

    def __init__(self, informers: Informers, table: Manufacturers) -> None:
        self._local_queues = informers.of(LOCAL_QUEUES)
        self._cluster_queues = informers.of(CLUSTER_QUEUES)
        self._instance_types = informers.of(INSTANCE_TYPES)
        self._settings = informers.of(SETTINGS)
        self._table = table

    def webhook(self) -> Webhook:
        return Webhook(
            name="workloads.mutation.worker.gpustack.ai",
            path="/mutate/workloads",
            resource=WORKLOADS,
            operations=("CREATE", "UPDATE"),
            conditions=_CONDITIONS,
            mutates=True,
            decide=self.decide,
            essential=False,
            by_queue_label=False,
        )

    def decide(self, question: Question) -> Verdict:
        workload, old = question.object, question.old
        if old is not None and is_true(old, "QuotaReserved"):
            return Allowed()
        pool = self._pool(workload)
        if pool is None:
            return Allowed()
        pod_sets = within(workload, "spec").get("podSets") or []
        pinned = [{**each, "template": self._pinned(workload, each.get("template") or {}, pool)} for each in pod_sets]
        return Allowed(difference(pod_sets, pinned, "/spec/podSets"))

    def _pinned(self, workload: Obj, template: Obj, pool: Pool) -> Obj:
        """The template as it should be; while the setting is off, without what was rendered before."""
        if not is_on(WORKLOAD_FIT_AFFINITY, self._settings.get(WORKLOAD_FIT_AFFINITY)):
            return render(template, None)
        demand = read_pod(template.get("spec") or {}, table=self._table, pool=pool)
        pin = parse_pin(annotations_of(workload).get(PLACEMENT_PIN))
        return render(template, pin, fit_expressions(demand, pool.akey or ""))

    def _pool(self, workload: Obj) -> Pool | None:
        queue = within(workload, "spec").get("queueName") or ""
        return pool_behind(
            self._local_queues.get(f"{namespace_of(workload)}/{queue}"),
            cluster_queue_of=self._cluster_queues.get,
            instance_type_of=self._instance_types.get,
            table=self._table,
        )
