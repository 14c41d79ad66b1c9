"""What a container is given to see its cards."""

import pytest

from gpustack_ctl.accel.cards import Card, PodKey
from gpustack_ctl.accel.families import Family, manufacturers
from gpustack_ctl.accel.requests import ContainerDemand
from gpustack_ctl.agent.inventory import DetectedModel
from gpustack_ctl.agent.responders import responders
from gpustack_ctl.agent.responders.responder import Grant, HostMount, ResponseRefused
from gpustack_ctl.agent.switches import switches

TABLE = manufacturers()


def _grant(family, *, manufacturer="nvidia", cards=1, env=(), runtime="12.4", instances=()):
    found = [Card(f"GPU-{index}", index, "m", manufacturer, memory_mib=24576) for index in range(cards)]
    demand = (
        ContainerDemand("main", "running", family, manufacturer, cards, 800_000, None, 30, 12288) if family else None
    )
    model = DetectedModel("m", manufacturer, "M", 24576, (), runtime_version=runtime)
    container = {"name": "main", "env": [{"name": name, "value": "mine"} for name in env]}
    return Grant(PodKey("default", "pod", "uid-1"), container, demand, found, model, tuple(instances))


async def _respond(grant, tmp_path, **env):
    turned = switches(env, manufacturers=TABLE.by_key)
    return await responders(TABLE, switches=turned, state_dir=tmp_path)[grant.model.manufacturer].respond(grant)


OFF = {"GPUSTACK_NVIDIA_SLICE_ISOLATION": "off"}


@pytest.mark.parametrize(
    ("manufacturer", "variable"),
    [
        ("nvidia", "NVIDIA_VISIBLE_DEVICES"),
        ("iluvatar", "IX_VISIBLE_DEVICES"),
        ("mthreads", "MTHREADS_VISIBLE_DEVICES"),
    ],
)
@pytest.mark.parametrize("family", [Family.EXCLUSIVE, Family.SHARED, None])
async def test_cards_are_named_in_the_vendors_variable(tmp_path, manufacturer, variable, family):
    response = await _respond(_grant(family, manufacturer=manufacturer, cards=2), tmp_path)

    assert response.envs == {variable: "GPU-0,GPU-1"}


async def test_a_partition_is_all_that_its_container_sees(tmp_path):
    response = await _respond(_grant(Family.PARTITIONED, instances=["MIG-1"]), tmp_path)

    assert response.envs == {"NVIDIA_VISIBLE_DEVICES": "MIG-1"}


async def test_cdi_names_the_cards_in_an_annotation_instead(tmp_path):
    env = {"GPUSTACK_NVIDIA_DEVICE_INJECTION_STRATEGY": "cdi-annotations"}

    response = await _respond(_grant(Family.EXCLUSIVE, cards=2), tmp_path, **env)

    assert response.envs == {}
    assert response.annotations == {"cdi.k8s.io/gpustack_nvidia": "nvidia.com/gpu=GPU-0,nvidia.com/gpu=GPU-1"}


async def test_a_slice_is_told_its_limits(tmp_path):
    response = await _respond(_grant(Family.SLICED), tmp_path, **OFF)

    assert response.envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "12288m",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "LIBCUDA_LOG_LEVEL": "0",
    }


async def test_limits_win_over_the_containers_own_variables_and_the_rest_gives_way(tmp_path):
    own = ("CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_ORDER", "LIBCUDA_LOG_LEVEL")

    envs = (await _respond(_grant(Family.SLICED, env=own), tmp_path, **OFF)).envs

    assert envs["CUDA_DEVICE_SM_LIMIT"] == "30"
    assert not envs.keys() & {"CUDA_DEVICE_ORDER", "LIBCUDA_LOG_LEVEL"}


async def test_a_slice_is_enforced_by_the_staged_library(tmp_path):
    staged = tmp_path / "lib" / "nvidia" / "cuda-12"
    staged.mkdir(parents=True)
    for name in ("libvgpu.so", "ld.so.preload"):
        (staged / name).touch()

    response = await _respond(_grant(Family.SLICED), tmp_path)

    assert HostMount("/etc/ld.so.preload", str(staged / "ld.so.preload")) in response.mounts
    work = next(mount for mount in response.mounts if not mount.read_only)
    assert work.host_path == str(tmp_path / "pods" / "uid-1")


async def test_without_the_library_the_refusal_says_what_where_and_how_past_it(tmp_path):
    with pytest.raises(ResponseRefused) as refused:
        await _respond(_grant(Family.SLICED), tmp_path)

    message = str(refused.value)
    assert "GPU-0" in message
    assert "libvgpu.so and ld.so.preload missing" in message
    assert str(tmp_path / "lib" / "nvidia" / "cuda-12") in message
    assert "GPUSTACK_NVIDIA_SLICE_ISOLATION=off" in message
    assert not (tmp_path / "pods").exists()


@pytest.mark.parametrize("manufacturer", ["amd", "ascend", "cambricon", "hygon", "metax", "thead"])
async def test_a_vendor_whose_containers_need_more_is_refused_plainly(tmp_path, manufacturer):
    with pytest.raises(ResponseRefused, match=manufacturer):
        await _respond(_grant(Family.EXCLUSIVE, manufacturer=manufacturer), tmp_path)


@pytest.mark.parametrize("manufacturer", ["iluvatar", "mthreads"])
async def test_a_slice_that_nobody_enforces_is_refused(tmp_path, manufacturer):
    with pytest.raises(ResponseRefused, match="not enforced"):
        await _respond(_grant(Family.SLICED, manufacturer=manufacturer), tmp_path)
