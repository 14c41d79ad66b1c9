"""What is deployed is what the code says, and it says no more than it must."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack_ctl.deployment import rbac
from gpustack_ctl.deployment.__main__ import main
from gpustack_ctl.deployment.files import files
from gpustack_ctl.kube.objects import Obj, Objs

DEPLOYED = Path(__file__).parents[3] / "deploy"


@pytest.mark.parametrize("name", sorted(files()))
def test_the_deployed_file_is_what_the_code_says(name: str):
    assert (DEPLOYED / name).read_text() == files()[name], "run `just generate`"


def test_generating_writes_every_file(tmp_path: Path):
    main(tmp_path)
    written = {str(file.relative_to(tmp_path)): file.read_text() for file in tmp_path.rglob("*.yaml")}
    assert written == files()


def rules() -> Iterator[Obj]:
    yield from rbac.manager_rules()
    yield from rbac.manager_rules_at_home()
    yield from rbac.agent_rules()


def test_no_right_is_given_over_everything():
    for rule in rules():
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"], rule


def test_secrets_are_opened_by_name_and_at_home_only():
    across_the_cluster: Objs = [*rbac.manager_rules(), *rbac.agent_rules()]
    assert not [rule for rule in across_the_cluster if "secrets" in rule["resources"]]
    opened = [
        rule for rule in rbac.manager_rules_at_home() if "secrets" in rule["resources"] and "get" in rule["verbs"]
    ]
    assert [rule["resourceNames"] for rule in opened] == [["gpustack-webhook-tls"]]


def test_only_the_agent_may_write_what_the_record_s_policy_asks_about():
    def may(rules: Objs) -> bool:
        return any("devices/status" in rule["resources"] and "update" in rule["verbs"] for rule in rules)

    assert may(rbac.agent_rules())
    assert not may([*rbac.manager_rules(), *rbac.manager_rules_at_home()])
