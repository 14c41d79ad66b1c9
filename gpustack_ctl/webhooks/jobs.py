"""Gate 1 for Jobs: the same fold and rules over the Pod template.

Kueue makes a Job's Workload from its template, and the Job's Pods carry no queue-name label, so the template is
the only place where gate 1 meets them. A template without folded units would ask for no credits, and be
admitted past gates 2 and 3.
"""

from collections.abc import Callable

from gpustack_ctl.kube.objects import Obj, deleting
from gpustack_ctl.kube.resources import JOBS
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.review import Allowed, Question, Verdict
from gpustack_ctl.webhooks.webhook import Webhook

_AT = "spec.template"

# A template may change only while the Job was suspended and stays so. Both ends matter: when Kueue starts a Job or
# stops one it sends the template along, and a fold in that request would make it invalid.
_CONDITIONS = {
    "template-may-change": (
        "request.operation == 'CREATE' || "
        "(has(oldObject.spec.suspend) && oldObject.spec.suspend && has(object.spec.suspend) && object.spec.suspend)"
    )
}


def job_webhooks(gate: Gate1) -> tuple[Webhook, Webhook]:
    """The mutating and the validating webhook of Jobs."""

    def mutate(question: Question, template: Obj) -> Verdict:
        return gate.mutate(question, template, at=_AT)

    def validate(question: Question, template: Obj) -> Verdict:
        return gate.validate(question, template, at=_AT)

    return (
        Webhook(
            name="jobs.mutation.worker.gpustack.ai",
            path="/mutate/jobs",
            resource=JOBS,
            operations=("CREATE", "UPDATE"),
            conditions=_CONDITIONS,
            mutates=True,
            decide=_while_it_lives(mutate),
        ),
        Webhook(
            name="jobs.validation.worker.gpustack.ai",
            path="/validate/jobs",
            resource=JOBS,
            operations=("CREATE", "UPDATE"),
            conditions=_CONDITIONS,
            mutates=False,
            decide=_while_it_lives(validate),
        ),
    )


def _while_it_lives(decide: Callable[[Question, Obj], Verdict]) -> Callable[[Question], Verdict]:
    """An update that takes a finalizer off is an update, too; nothing may hold a Job past its own deletion."""

    def decided(question: Question) -> Verdict:
        if deleting(question.object):
            return Allowed()
        return decide(question, question.object["spec"]["template"])

    return decided
