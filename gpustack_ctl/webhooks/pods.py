"""Gate 1 for Pods, on CREATE: a Pod's requests cannot change later."""

from gpustack_ctl.accel.labels import KUEUE_WORKLOAD
from gpustack_ctl.kube.objects import annotations_of
from gpustack_ctl.kube.resources import PODS
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.review import Question, Verdict
from gpustack_ctl.webhooks.webhook import Webhook


def pod_webhooks(gate: Gate1) -> tuple[Webhook, Webhook]:
    """The mutating and the validating webhook of Pods."""

    def mutate(question: Question) -> Verdict:
        pod = question.object
        # A Pod of a Workload gets its plan from Kueue; on any other Pod it is a leftover, or a wish.
        return gate.mutate(question, pod, keep_plan=KUEUE_WORKLOAD in annotations_of(pod))

    def validate(question: Question) -> Verdict:
        return gate.validate(question, question.object)

    return (
        Webhook(
            name="pods.mutation.worker.gpustack.ai",
            path="/mutate/pods",
            resource=PODS,
            operations=("CREATE",),
            mutates=True,
            decide=mutate,
        ),
        Webhook(
            name="pods.validation.worker.gpustack.ai",
            path="/validate/pods",
            resource=PODS,
            operations=("CREATE",),
            mutates=False,
            decide=validate,
        ),
    )
