"""Looking over somebody's cluster: what is missing is said, with the command that brings it; nothing is touched."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from gpustack_ctl.accel.families import manufacturers
from gpustack_ctl.accel.kueue_config import kueue_configuration
from gpustack_ctl.demo.existing import UnfitClusterError, check_kueue, choose_node
from gpustack_ctl.kube.client import Kube
from gpustack_ctl.kube.objects import Obj, name_of
from gpustack_ctl.kube.resources import CONFIG_MAPS, NAMESPACES, NODES
from gpustack_ctl.localcluster import FakeNode, FakeNodes, LocalCluster
from gpustack_ctl.localcluster.assets import find_assets
from gpustack_ctl.localcluster.progress import Quiet
from tests.integration.kube.plane import Plane, plane_in


@pytest.fixture(scope="module")
async def bare() -> AsyncIterator[Plane]:
    """An API server without Kueue and without nodes."""
    with TemporaryDirectory(prefix="kube-") as directory:
        async with plane_in(Path(directory), await find_assets(Quiet())) as plane:
            yield plane


@pytest.fixture
async def kube(control_plane: LocalCluster) -> AsyncIterator[Kube]:
    async with Kube.connect(kubeconfig=str(control_plane.kubeconfig)) as kube:
        yield kube


@pytest.fixture
async def configured(kube: Kube) -> AsyncIterator[Kube]:
    """A Kueue that keeps its configuration where its chart does: as a test writes it."""
    await kube.apply(NAMESPACES, {"metadata": {"name": "kueue-system"}}, manager="test")
    yield kube
    await kube.delete(CONFIG_MAPS, "kueue-manager-config", "kueue-system")


async def configure(kube: Kube, configuration: Obj) -> None:
    data = {"controller_manager_config.yaml": yaml.safe_dump(configuration)}
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    await kube.apply(CONFIG_MAPS, {"metadata": metadata, "data": data}, manager="test")


async def test_without_kueue_it_prints_the_command_that_installs_it(bare: Plane) -> None:
    async with Kube.connect(kubeconfig=bare.kubeconfig()) as kube:
        with pytest.raises(UnfitClusterError, match="is not installed") as refused:
            await check_kueue(kube, install=False)
    assert "helm upgrade --install kueue" in str(refused.value)
    assert "--install-kueue" in str(refused.value)


async def test_a_kueue_whose_configuration_nobody_shows_is_taken_at_its_word(kube: Kube) -> None:
    await check_kueue(kube, install=False)


async def test_the_shipped_configuration_will_do(configured: Kube) -> None:
    await configure(configured, dict(kueue_configuration(manufacturers())))
    await check_kueue(configured, install=False)


async def test_what_a_configuration_lacks_is_named(configured: Kube) -> None:
    await configure(configured, {"integrations": {"frameworks": ["batch/job"]}})
    with pytest.raises(UnfitClusterError) as refused:
        await check_kueue(configured, install=False)
    assert "without the pod integration (integrations.frameworks)" in str(refused.value)
    assert "without the credits (resources.transformations)" in str(refused.value)
    assert "deploy/kueue/values.yaml" in str(refused.value)


async def test_the_only_ready_node_is_taken_and_of_several_one_must_be_named(bare: Plane) -> None:
    nodes = FakeNodes(Path(bare.kubeconfig()))
    async with Kube.connect(kubeconfig=bare.kubeconfig()) as kube:
        with pytest.raises(UnfitClusterError, match=r"0 Nodes are Ready \(none\)"):
            await choose_node(kube, None)
        await nodes.add([FakeNode(name="only")])
        assert name_of(await choose_node(kube, None)) == "only"
        await nodes.add([FakeNode(name="other")])
        with pytest.raises(UnfitClusterError, match=r"2 Nodes are Ready \(only, other\).*--node-name"):
            await choose_node(kube, None)
        assert name_of(await choose_node(kube, "other")) == "other"
        with pytest.raises(UnfitClusterError, match="--node-name third: no such Node; there are only, other"):
            await choose_node(kube, "third")
        await kube.patch(NODES, "other", {"spec": {"unschedulable": True}})
        assert name_of(await choose_node(kube, None)) == "only"
