"""Whole cards by their device nodes."""

import orjson
import pytest

from gpustack_ctl.accel.families import Family
from gpustack_ctl.agent.responders.responder import HostMount, ResponseRefused
from tests.unit.agent.responders.grants import a_host, grant, respond

FIRST_DRM = ["/dev/dri/card0", "/dev/dri/renderD128"]

#: What of a host each manufacturer's container must have, for the card that the driver calls 10, the first of two.
NEEDED = {
    "amd": ["/dev/kfd", *FIRST_DRM],
    "cambricon": ["/dev/cambricon_dev10"],
    "hygon": ["/dev/kfd", "/dev/mkfd", *FIRST_DRM],
    "metax": ["/dev/mxcd", *FIRST_DRM],
    "thead": ["/dev/alixpu", "/dev/alixpu_ctl", "/dev/alixpu_ppu10"],
}


@pytest.mark.parametrize("family", [Family.EXCLUSIVE, Family.SHARED, None])
@pytest.mark.parametrize("manufacturer", NEEDED)
async def test_a_container_is_given_its_cards_nodes_and_no_other_cards(tmp_path, manufacturer, family):
    host = a_host(tmp_path, *NEEDED[manufacturer])

    response = await respond(grant(family, manufacturer=manufacturer), tmp_path, host=host)

    assert [node.path for node in response.devices] == NEEDED[manufacturer]


@pytest.mark.parametrize(("manufacturer", "missing"), [(key, path) for key, paths in NEEDED.items() for path in paths])
async def test_without_any_one_of_them_the_refusal_names_it(tmp_path, manufacturer, missing):
    host = a_host(tmp_path, *NEEDED[manufacturer])
    host.at(missing).unlink()

    with pytest.raises(ResponseRefused, match=missing):
        await respond(grant(Family.EXCLUSIVE, manufacturer=manufacturer), tmp_path, host=host)


async def test_a_card_that_the_kernel_made_no_nodes_for_is_named_with_its_address(tmp_path):
    host = a_host(tmp_path, "/dev/kfd", drm=False)

    with pytest.raises(ResponseRefused, match=r"0000:01:00.0 of GPU-0 is not on this host"):
        await respond(grant(Family.EXCLUSIVE, manufacturer="amd"), tmp_path, host=host)


async def test_amds_own_runtime_is_told_to_add_no_card(tmp_path):
    response = await respond(grant(Family.EXCLUSIVE, manufacturer="amd"), tmp_path, host=a_host(tmp_path, "/dev/kfd"))

    assert response.envs == {"AMD_VISIBLE_DEVICES": "none"}


async def test_what_a_driver_may_have_is_taken_where_it_is(tmp_path):
    host = a_host(tmp_path, *NEEDED["cambricon"], "/dev/cambricon_ctl", "/dev/cambricon_ipcm10", "/opt/hyhal/lib")

    paths = {node.path for node in (await respond(grant(None, manufacturer="cambricon"), tmp_path, host=host)).devices}
    assert {"/dev/cambricon_ctl", "/dev/cambricon_ipcm10"} < paths

    host = a_host(tmp_path / "hygon", "/dev/kfd", "/dev/mkfd", "/opt/hyhal/lib")
    response = await respond(grant(Family.SHARED, manufacturer="hygon"), tmp_path, host=host)
    assert response.mounts == (HostMount("/opt/hyhal", "/opt/hyhal"),)


async def test_cdi_names_the_cards_and_says_what_the_names_stand_for(tmp_path):
    host = a_host(tmp_path, "/dev/kfd")
    env = {"GPUSTACK_AMD_DEVICE_INJECTION_STRATEGY": "cdi-annotations"}

    response = await respond(grant(Family.EXCLUSIVE, manufacturer="amd"), tmp_path, host=host, **env)

    assert response.devices == ()
    assert response.annotations == {"cdi.k8s.io/gpustack_amd": "amd.com/gpu=GPU-0"}
    written = orjson.loads(host.at("/var/run/cdi/gpustack-amd-m.json").read_bytes())
    assert written["kind"] == "amd.com/gpu"
    assert written["containerEdits"]["deviceNodes"] == [{"path": "/dev/kfd", "permissions": "rw"}]
    nodes = {device["name"]: device["containerEdits"]["deviceNodes"] for device in written["devices"]}
    assert [node["path"] for node in nodes["GPU-0"]] == FIRST_DRM
    assert [node["path"] for node in nodes["GPU-1"]] == ["/dev/dri/card1", "/dev/dri/renderD129"]


async def test_a_sick_neighbour_is_left_out_of_the_specification(tmp_path):
    host = a_host(tmp_path, "/dev/kfd")
    host.at("/dev/dri/card1").unlink()
    env = {"GPUSTACK_AMD_DEVICE_INJECTION_STRATEGY": "cdi-annotations"}

    await respond(grant(Family.EXCLUSIVE, manufacturer="amd"), tmp_path, host=host, **env)

    written = orjson.loads(host.at("/var/run/cdi/gpustack-amd-m.json").read_bytes())
    assert [device["name"] for device in written["devices"]] == ["GPU-0"]
