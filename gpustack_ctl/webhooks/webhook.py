"""One admission webhook: what it is asked about, when, and the function that answers.

The server routes by `path` and the registration tells the API server of `resource`, `operations` and
`conditions`; both read the same record, so the API server never calls a path that is not served and no path is
served that nobody calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpustack_ctl.kube.resources import Resource
from gpustack_ctl.webhooks.review import Question, Verdict

Decide = Callable[[Question], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """`decide` is a plain function: it may look into the informers' copies and must not wait for anything."""

    #: A domain name of three labels or more; users read it in every denial.
    name: str
    path: str
    resource: Resource
    operations: tuple[str, ...]
    mutates: bool
    decide: Decide
    #: CEL expressions by name, evaluated inside the API server; all must hold, or it does not call.
    conditions: Mapping[str, str] = field(default_factory=dict)
    #: Whether a request fails while nobody answers. Where it does not, it goes on as if it had never been asked about.
    essential: bool = True
    #: Whether only objects with Kueue's queue-name label are asked about.
    by_queue_label: bool = True
