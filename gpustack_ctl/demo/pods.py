"""Who is in the story: six Pods, and what each asks for; `verdict` says how each must end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import KeyKind, Manufacturer
from gpustack_ctl.accel.labels import KUEUE_QUEUE_NAME

# The Pod prints its real environment once, for the story to read back, and then stays.
_COMMAND = ["sh", "-c", "env | sort; trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]


@dataclass(frozen=True, slots=True)
class Role:
    """One Pod of the story."""

    name: str
    asks: Mapping[str, str]

    def manifest(self, *, namespace: str, queue: str, image: str) -> dict[str, Any]:
        """The Pod as a user would write it: nothing folded, nothing pinned."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "namespace": namespace, "labels": {KUEUE_QUEUE_NAME: queue}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "containers": [
                    {
                        "name": "main",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": _COMMAND,
                        "resources": {"limits": dict(self.asks)},
                    }
                ],
            },
        }


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody, in the order they enter."""

    half_a: Role
    half_b: Role
    share: Role
    whole: Role
    late: Role
    wrong: Role

    def __iter__(self) -> Iterator[Role]:
        yield from (self.half_a, self.half_b, self.share, self.whole, self.late, self.wrong)


def cast_for(manufacturer: Manufacturer) -> Cast:
    """The story's Pods in the keys of one manufacturer."""
    key = manufacturer.key_for
    half = {key(KeyKind.SLICED): "1", key(KeyKind.MEMORY_PERCENTAGE): "50"}
    return Cast(
        half_a=Role("half-a", half),
        half_b=Role("half-b", half),
        share=Role("share", {key(KeyKind.SHARED): "2"}),
        whole=Role("whole", {key(KeyKind.WHOLE): "1"}),
        late=Role("late", half),
        wrong=Role("wrong", {key(KeyKind.SLICED): "2"}),
    )
