"""Gate 1 for Jobs: the same fold and rules over the Pod template.

Kueue makes a Job's Workload from its template, and the Job's Pods carry no queue-name label, so the template is
the only place where gate 1 meets them. A template without folded units would ask for no credits, and be
admitted past gates 2 and 3.
"""

from collections.abc import Callable

from gpustack_ctl.kube.objects import Obj, deleting
from gpustack_ctl.kube.resources import JOBS
from gpustack_ctl.webhooks.gate1 import Gate1
from gpustack_ctl.webhooks.review import Allowed, Question, Verdict, within
from gpustack_ctl.webhooks.webhook import Webhook

_AT = "spec.template"

# The API server lets a template change only while its Job is suspended; in any other update a fold would be refused.
_CONDITIONS = {
    "template-may-change": "request.operation == 'CREATE' || (has(oldObject.spec.suspend) && oldObject.spec.suspend)"
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
            decide=_where_asked(mutate),
        ),
        Webhook(
            name="jobs.validation.worker.gpustack.ai",
            path="/validate/jobs",
            resource=JOBS,
            operations=("CREATE", "UPDATE"),
            conditions=_CONDITIONS,
            mutates=False,
            decide=_where_asked(validate),
        ),
    )


def _where_asked(decide: Callable[[Question, Obj], Verdict]) -> Callable[[Question], Verdict]:
    def decided(question: Question) -> Verdict:
        template = _template(question)
        return Allowed() if template is None else decide(question, template)

    return decided


def _template(question: Question) -> Obj | None:
    """The template to judge; None where there is nothing to say.

    An update that takes a finalizer off is an update, too, and nothing may hold a Job past its own deletion. And the
    update by which Kueue starts a Job sends the template along: a Job from before us must not be stuck there, unless
    that update was used to ask for something else.
    """
    job, old = question.object, question.old
    if deleting(job):
        return None
    template = within(job, "spec", "template")
    starts = not job["spec"].get("suspend")
    if old is not None and starts and _asked(template) == _asked(within(old, "spec", "template")):
        return None
    return template


def _asked(template: Obj) -> tuple[object, object]:
    spec = within(template, "spec")
    return spec.get("initContainers"), spec.get("containers")
