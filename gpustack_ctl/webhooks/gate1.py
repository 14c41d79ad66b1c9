"""Gate 1 over one Pod template, wherever it stands: in a Pod, or in a Job.

The rules and the fold are pure and live in accel; here they meet the queue that the object names, the pool
behind it, and the API server's way of asking. `at` is where the template stands in its object: empty for a Pod,
`spec.template` for a Job.
"""

from dataclasses import dataclass

from gpustack_ctl.accel import rules
from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.judgement import judge
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME, PLANNED
from gpustack_ctl.kube.objects import Obj, labels_of
from gpustack_ctl.webhooks.patch import Operation, difference, pointer
from gpustack_ctl.webhooks.pools import Pools
from gpustack_ctl.webhooks.review import Allowed, Question, Refused, Verdict, within


@dataclass(frozen=True, slots=True)
class Gate1:
    """Folds and judges templates by the pools that are known now."""

    pools: Pools
    table: Manufacturers

    def mutate(self, question: Question, template: Obj, *, at: str = "", keep_plan: bool = False) -> Verdict:
        """The template folded, and rid of a plan that nobody made for it.

        What is wrong is refused here already, with every fault: a fraction or a negative count would next meet the API
        server's own check, which knows only that it is no integer, and not what to write instead.
        """
        queue = labels_of(question.object).get(KUEUE_QUEUE_NAME)
        if not queue:
            return Allowed()
        path, spec = _spec_path(at), within(template, "spec")
        pool = self.pools.behind(queue)
        judgement = judge(spec, table=self.table, pool=pool, queue=queue, at=path)
        if judgement.errors:
            return Refused(judgement.errors)
        patch = difference(spec, judgement.spec, _pointer(path))
        return Allowed(patch if keep_plan else [*patch, *_without_plan(template, at)])

    def validate(self, question: Question, template: Obj, *, at: str = "") -> Verdict:
        """The same rules over the template as all other webhooks have left it: they come after the fold."""
        queue = labels_of(question.object).get(KUEUE_QUEUE_NAME)
        if not queue:
            return Allowed()
        errors = rules.validate(
            within(template, "spec"), table=self.table, pool=self.pools.behind(queue), queue=queue, at=_spec_path(at)
        )
        return Refused(errors) if errors else Allowed()


def _without_plan(template: Obj, at: str) -> list[Operation]:
    # A value that is there already makes Kueue fail the Workload for good when it comes to write the real plan.
    metadata = within(template, "metadata") if template.get("metadata") else {}
    annotations = within(metadata, "annotations") if metadata.get("annotations") else {}
    if PLANNED not in annotations:
        return []
    return [{"op": "remove", "path": pointer(f"{_pointer(at)}/metadata/annotations", PLANNED)}]


def _spec_path(at: str) -> str:
    return f"{at}.spec" if at else "spec"


def _pointer(path: str) -> str:
    return "/" + path.replace(".", "/") if path else ""
