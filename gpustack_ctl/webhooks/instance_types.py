"""The InstanceType webhooks: complete at creation, fixed afterwards, labelled always.

Both webhooks say the same faults. The first refuses already, because between the two the API server checks the schema,
which would name a missing field without a word on what to write there.

They have their say while a type is being deleted, too. What they ask reads no other object, so nothing that is gone
can hold the type back, and the update that releases its finalizer changes nothing that they guard.
"""

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.field_errors import FieldError
from gpustack_ctl.accel.instance_types import faults_of_change, faults_of_new, with_defaults, with_labels
from gpustack_ctl.crds.setting import AWARE_CPU_MANUFACTURER, is_on
from gpustack_ctl.kube.informer import Informers
from gpustack_ctl.kube.objects import deleting
from gpustack_ctl.kube.resources import INSTANCE_TYPES, RESOURCE_FLAVORS, SETTINGS
from gpustack_ctl.webhooks.patch import difference
from gpustack_ctl.webhooks.review import Allowed, Question, Refused, Verdict, within
from gpustack_ctl.webhooks.webhook import Webhook


class InstanceTypes:
    """Completes and judges InstanceTypes by the flavors and settings that are known now."""

    def __init__(self, informers: Informers, table: Manufacturers) -> None:
        self._flavors = informers.of(RESOURCE_FLAVORS)
        self._settings = informers.of(SETTINGS)
        self._table = table

    def webhooks(self) -> tuple[Webhook, Webhook]:
        """The mutating and the validating webhook."""
        return (
            Webhook(
                name="instancetypes.mutation.worker.gpustack.ai",
                path="/mutate/instancetypes",
                resource=INSTANCE_TYPES,
                operations=("CREATE", "UPDATE"),
                mutates=True,
                decide=self.mutate,
                by_queue_label=False,
            ),
            Webhook(
                name="instancetypes.validation.worker.gpustack.ai",
                path="/validate/instancetypes",
                resource=INSTANCE_TYPES,
                operations=("CREATE", "UPDATE"),
                mutates=False,
                decide=self.validate,
                by_queue_label=False,
            ),
        )

    def mutate(self, question: Question) -> Verdict:
        if errors := self._faults(question):
            return Refused(errors)
        aware = is_on(AWARE_CPU_MANUFACTURER, self._settings.get(AWARE_CPU_MANUFACTURER))
        if question.old is None:
            flavors = [flavor for flavor in self._flavors.list() if not deleting(flavor)]
            wanted = with_defaults(question.object, flavors=flavors, aware_cpu=aware)
        else:
            wanted = with_labels(question.object, aware_cpu=aware)
        return Allowed(difference(question.object, wanted))

    def validate(self, question: Question) -> Verdict:
        errors = self._faults(question)
        return Refused(errors) if errors else Allowed()

    def _faults(self, question: Question) -> list[FieldError]:
        if question.object.get("spec") is not None:
            within(question.object, "spec")
        if question.old is None:
            return faults_of_new(question.object, table=self._table)
        return faults_of_change(question.old, question.object)
