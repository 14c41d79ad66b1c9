"""What gate 1 would say of every Pod template in a set of manifests: the webhook's own judgement, asked early."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpustack_ctl.accel.families import Manufacturers
from gpustack_ctl.accel.judgement import Judgement, judge
from gpustack_ctl.lint.instance_types import InstanceTypes
from gpustack_ctl.lint.manifests import Manifest, ManifestError
from gpustack_ctl.lint.templates import Template, TemplateError, templates_of


@dataclass(frozen=True, slots=True)
class Finding:
    """One Pod template and what gate 1 says of it; `judgement` is None where gate 1 would not look."""

    source: str
    line: int
    kind: str
    namespace: str | None
    name: str
    template: Template
    judgement: Judgement | None

    @property
    def admitted(self) -> bool:
        return self.judgement is None or not self.judgement.errors


def findings(manifests: Iterable[Manifest], *, pools: InstanceTypes, table: Manufacturers) -> Iterator[Finding]:
    """In the order of the manifests; objects without a Pod template are passed over. Raises ManifestError."""
    for manifest in manifests:
        metadata = manifest.object.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise ManifestError(manifest.source, manifest.line, "metadata: Invalid value: must be an object")
        try:
            for template in templates_of(manifest.object):
                yield _finding(manifest, metadata, template, pools, table)
        except TemplateError as fault:
            raise ManifestError(manifest.source, manifest.line, f"{manifest.object['kind']}: {fault}") from fault


def _finding(
    manifest: Manifest, metadata: Mapping[str, Any], template: Template, pools: InstanceTypes, table: Manufacturers
) -> Finding:
    judgement = None
    if template.queue is not None:
        pool = pools.behind(template.queue)
        judgement = judge(template.spec, table=table, pool=pool, queue=template.queue, at=template.at)
    return Finding(
        source=manifest.source,
        line=manifest.line,
        kind=manifest.object["kind"],
        namespace=metadata.get("namespace"),
        name=str(metadata.get("name") or metadata.get("generateName") or ""),
        template=template,
        judgement=judgement,
    )
