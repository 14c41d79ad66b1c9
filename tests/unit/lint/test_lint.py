"""`gpustack-ctl lint` as it is called: what it prints, and the code it leaves with."""

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_ctl.accel.naming import entrance_name
from gpustack_ctl.cli import cli
from gpustack_ctl.outcome import exit_code

POOL = "gpustack--nvidia-a10g-linux-amd64"
QUEUE = entrance_name(POOL)
GPU = "nvidia.com/gpu"
UNITS = f"{GPU}.sliced.units"
HALF = {f"{GPU}.sliced": 1, f"{GPU}.sliced.memory-percentage": 50}
SIX_GIB = {f"{GPU}.sliced": 1, f"{GPU}.sliced.memory-mib": 6144}

INSTANCE_TYPE = {
    "apiVersion": "worker.gpustack.ai/v1",
    "kind": "InstanceType",
    "metadata": {"name": POOL, "labels": {"schedule.gpustack.ai/queue-entrance": QUEUE}},
    "spec": {"acceleratorGroup": "nvidia-a10g", "memory": "24576Mi"},
}


def pod(name: str, limits: dict[str, Any], queue: str | None = QUEUE) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "team"}
    if queue is not None:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue}
    spec = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


Lint = Callable[..., Done]


@pytest.fixture
def lint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lint:
    """The command line, run to its exit code in this process."""

    def run(*arguments: str | Path, stdin: str = "") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = exit_code(cli, ["lint", *map(str, arguments)])
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, *objects: dict[str, Any]) -> Path:
        file = tmp_path / name
        file.write_text(yaml.safe_dump_all(objects))
        return file

    return write


def test_an_admitted_pod_is_shown_with_what_is_folded_in(lint: Lint, write):
    file = write("pod.yaml", pod("half", HALF))
    done = lint(file)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"{file}:1: Pod team/half: admitted",
        f"    main: {UNITS}: 800000",
        f"    main: {GPU}.sliced.cores-percentage: 100",
        "1 admitted, 0 refused, 0 not looked at",
    ]


def test_json_is_one_list_with_the_final_limits(lint: Lint, write):
    share = pod("share", {f"{GPU}.shared": 2})
    types = write("types.yaml", INSTANCE_TYPE)
    done = lint(
        "-", "--output", "json", "--instance-types", types, stdin=yaml.safe_dump_all([pod("half", HALF), share])
    )
    half, shares = json.loads(done.stdout)
    assert half == {
        "source": "-",
        "line": 1,
        "kind": "Pod",
        "namespace": "team",
        "name": "half",
        "applies": True,
        "admitted": True,
        "container": {
            "main": {
                f"{GPU}.sliced": "1",
                f"{GPU}.sliced.memory-percentage": "50",
                UNITS: "800000",
                f"{GPU}.sliced.cores-percentage": "100",
            }
        },
        "affinity": None,
        "errors": [],
    }
    (term,) = shares["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "acceleratable.feature.gpustack.ai/nvidia-a10g.count", "operator": "Gt", "values": ["1"]}
    ]


def test_a_refused_pod_is_told_the_field_and_what_to_write(lint: Lint, write):
    file = write("pods.yaml", pod("half", HALF), pod("wrong", HALF | {f"{GPU}.sliced": 2}))
    done = lint(file, "--output", "json")
    assert done.returncode == 1
    _, wrong = json.loads(done.stdout)
    assert (wrong["admitted"], wrong["container"], wrong["line"]) == (False, {}, 17)
    (error,) = wrong["errors"]
    assert error["field"] == f"spec.containers[0].resources.limits[{GPU}.sliced]"
    assert (error["type"], error["value"]) == ("FieldValueInvalid", "2")
    assert error["message"].startswith("must be 1")


def test_the_field_is_the_one_in_the_object_as_written(lint: Lint, write):
    template = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": QUEUE}}, "spec": pod("", {GPU: 0})["spec"]}
    file = write(
        "d.yaml",
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}},
    )
    done = lint(file)
    assert done.returncode == 1
    assert f"spec.template.spec.containers[0].resources.limits[{GPU}]: Invalid value" in done.stdout


def test_a_pod_without_a_queue_is_not_looked_at_and_no_fault(lint: Lint, write):
    done = lint(write("pod.yaml", pod("free", {f"{GPU}.sliced": 2}, queue=None)), "--output", "json")
    (found,) = json.loads(done.stdout)
    assert (done.returncode, found["applies"], found["admitted"], found["errors"]) == (0, False, True, [])


def test_mebibytes_need_a_pool_and_are_measured_by_it(lint: Lint, write):
    file = write("pod.yaml", pod("quarter", SIX_GIB))
    without = lint(file)
    assert without.returncode == 1
    assert f'no InstanceType fronts queue "{QUEUE}" yet' in without.stdout
    labelled = lint(file, "--instance-types", write("types.yaml", INSTANCE_TYPE))
    unlabelled = INSTANCE_TYPE | {"metadata": {"name": POOL}}
    never_sent = lint(file, "--instance-types", write("new.yaml", {"kind": "List", "items": [unlabelled]}))
    assert f"main: {UNITS}: 400000" in labelled.stdout
    assert labelled.stdout == never_sent.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("kind: Pod\nmetadata: {name: a\n", "f.yaml:3: not valid YAML"),
        ("kind: Pod\napiVersion: v1\n", "f.yaml:1: Pod: spec: Required value"),
        ("kind: Pod\nmetadata: x\n", "f.yaml:1: metadata: Invalid value: must be an object"),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_code_2(lint: Lint, tmp_path: Path, content: str, said: str):
    file = tmp_path / "f.yaml"
    file.write_text(content)
    done = lint(file, "--output", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_and_types_that_are_none_end_with_code_2(lint: Lint, write, tmp_path: Path):
    assert lint(tmp_path / "nowhere.yaml").returncode == 2
    file = write("pod.yaml", pod("half", HALF))
    done = lint(file, "--instance-types", file)
    assert done.returncode == 2
    assert "pod.yaml:1: kind Pod: write InstanceTypes only" in done.stderr


def test_a_cluster_that_does_not_answer_ends_with_code_3(lint: Lint, write, tmp_path: Path):
    named = {"name": "here"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{**named, "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{**named, "user": {"token": "t"}}],
                "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
                "current-context": "here",
            }
        )
    )
    done = lint(write("pod.yaml", pod("half", HALF)), "--kubeconfig", kubeconfig)
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot be reached" in done.stderr
