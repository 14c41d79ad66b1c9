"""What a container is given to see its cards."""

import pytest

from gpustack_ctl.accel.families import Family
from gpustack_ctl.agent.responders.responder import HostMount, ResponseRefused
from tests.unit.agent.responders.grants import grant, respond

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
    response = await respond(grant(family, manufacturer=manufacturer, cards=(0, 1)), tmp_path)

    assert response.envs == {variable: "GPU-0,GPU-1"}


async def test_a_partition_is_all_that_its_container_sees(tmp_path):
    response = await respond(grant(Family.PARTITIONED, instances=("MIG-1",)), tmp_path)

    assert response.envs == {"NVIDIA_VISIBLE_DEVICES": "MIG-1"}


async def test_cdi_names_the_cards_in_an_annotation_instead(tmp_path):
    env = {"GPUSTACK_NVIDIA_DEVICE_INJECTION_STRATEGY": "cdi-annotations"}

    response = await respond(grant(Family.EXCLUSIVE, cards=(0, 1)), tmp_path, **env)

    assert response.envs == {}
    assert response.annotations == {"cdi.k8s.io/gpustack_nvidia": "nvidia.com/gpu=GPU-0,nvidia.com/gpu=GPU-1"}


async def test_a_slice_is_told_its_limits(tmp_path):
    response = await respond(grant(Family.SLICED), tmp_path, **OFF)

    assert response.envs == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "12288m",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "LIBCUDA_LOG_LEVEL": "0",
    }


async def test_limits_win_over_the_containers_own_variables_and_the_rest_gives_way(tmp_path):
    own = ("CUDA_DEVICE_SM_LIMIT", "CUDA_DEVICE_ORDER", "LIBCUDA_LOG_LEVEL")

    envs = (await respond(grant(Family.SLICED, env=own), tmp_path, **OFF)).envs

    assert envs["CUDA_DEVICE_SM_LIMIT"] == "30"
    assert not envs.keys() & {"CUDA_DEVICE_ORDER", "LIBCUDA_LOG_LEVEL"}


async def test_a_slice_is_enforced_by_the_staged_library(tmp_path):
    staged = tmp_path / "lib" / "nvidia" / "cuda-12"
    staged.mkdir(parents=True)
    for name in ("libvgpu.so", "ld.so.preload"):
        (staged / name).touch()

    response = await respond(grant(Family.SLICED), tmp_path)

    assert HostMount("/etc/ld.so.preload", str(staged / "ld.so.preload")) in response.mounts
    work = next(mount for mount in response.mounts if not mount.read_only)
    assert work.host_path == str(tmp_path / "pods" / "uid-1")


async def test_without_the_library_the_refusal_says_what_where_and_how_past_it(tmp_path):
    with pytest.raises(ResponseRefused) as refused:
        await respond(grant(Family.SLICED), tmp_path)

    message = str(refused.value)
    assert "GPU-0" in message
    assert "libvgpu.so and ld.so.preload missing" in message
    assert str(tmp_path / "lib" / "nvidia" / "cuda-12") in message
    assert "GPUSTACK_NVIDIA_SLICE_ISOLATION=off" in message
    assert not (tmp_path / "pods").exists()


@pytest.mark.parametrize("manufacturer", ["iluvatar", "amd", "thead"])
async def test_a_slice_of_cards_that_cannot_be_sliced_is_refused(tmp_path, manufacturer):
    with pytest.raises(ResponseRefused, match="sliced"):
        await respond(grant(Family.SLICED, manufacturer=manufacturer), tmp_path)
