"""What preflight says of slices: the very thing that an allocation would be refused for."""

import pytest

from gpustack_ctl.agent.inventory import CardLocation, DetectedCard, DetectedModel, Inventory
from gpustack_ctl.agent.preflight.finding import State
from gpustack_ctl.agent.preflight.slices import enforcement
from gpustack_ctl.agent.switches import switches
from tests.unit.agent.responders.grants import TABLE, a_host, bus_id


async def _finding(tmp_path, manufacturer, *paths, **env):
    (only,) = await _findings(tmp_path, manufacturer, *paths, **env)
    assert only.check == f"slices of {manufacturer}-m"
    return only


async def _findings(tmp_path, manufacturer, *paths, **env):
    cards = (DetectedCard("GPU-0", 0, CardLocation(bus_id(0)), slots=4),)
    model = DetectedModel("m", manufacturer, "M", 24576, cards, cores=60, runtime_version="12.4")
    return [
        finding
        async for finding in enforcement(
            Inventory((model,)),
            table=TABLE,
            switches=switches(env, manufacturers=TABLE.by_key),
            state_dir=tmp_path / "state",
            host=a_host(tmp_path, *paths),
        )
    ]


@pytest.mark.parametrize("manufacturer", ["nvidia", "ascend", "cambricon", "hygon", "metax", "mthreads"])
async def test_a_bare_host_cannot_enforce_and_the_way_past_is_named_once(tmp_path, manufacturer):
    finding = await _finding(tmp_path, manufacturer)

    assert finding.state is State.UNAVAILABLE
    assert finding.remedy.count(f"GPUSTACK_{manufacturer.upper()}_SLICE_ISOLATION=off") == 1


async def test_a_host_with_what_it_takes_is_fine(tmp_path):
    assert (await _finding(tmp_path / "m", "mthreads", "/sys/module/sgpu_km/version")).state is State.OK
    assert (await _finding(tmp_path / "h", "hygon", "/opt/dtk/env.sh")).state is State.OK


async def test_isolation_off_is_said_and_nothing_is_looked_for(tmp_path):
    finding = await _finding(tmp_path, "hygon", GPUSTACK_HYGON_SLICE_ISOLATION="off")

    assert finding.state is State.NOT_DECLARED
    assert "without enforcement" in finding.reason


async def test_cards_that_nobody_can_slice_are_not_spoken_of(tmp_path):
    assert await _findings(tmp_path, "amd") == []
