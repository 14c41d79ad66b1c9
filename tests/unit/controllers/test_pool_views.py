"""A pool's catalog: what its cards can do, whoever holds them now."""

from typing import Any

from gpustack_ctl.controllers.pool_views import PoolLedgers, catalog


def devices(
    name: str, *accelerators: dict[str, Any], version: int = 1, rows: list[dict[str, Any]] | None = None
) -> Any:
    group = {
        "id": "a100",
        "manufacturer": "nvidia",
        "name": "NVIDIA A100",
        "memory": 81920,
        "accelerators": [*accelerators],
    }
    status = {"groups": [{"id": "a100", "manufacturer": "nvidia", "accelerators": rows or []}]}
    metadata = {"name": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"groups": [group]}, "status": status}


def sliceable(name: str) -> dict[str, Any]:
    return {"id": name, "index": 0, "status": {"logicalSliced": {"count": 128, "coresPercentageOvercommit": True}}}


def partitioned(name: str) -> dict[str, Any]:
    places = [{"start": start, "length": 1} for start in range(7)]
    profile = {"name": "1g.10gb", "memoryMib": 9728, "count": 7, "placements": places}
    return {"id": name, "index": 0, "status": {"physicalSliced": {"count": 7, "profiles": [profile]}}}


def test_everything_that_some_card_offers_is_on_offer() -> None:
    detail = catalog("nvidia-a100", [devices("b", partitioned("P")), devices("a", sliceable("S"))])
    assert detail is not None
    assert (detail["manufacturer"], detail["product"], detail["memory"]) == ("nvidia", "NVIDIA A100", "81920Mi")
    assert detail["slicedDetail"] == {
        "logical": {"count": 128, "coresPercentageOvercommit": True},
        "physical": {"count": 7, "profiles": [{"name": "1g.10gb", "count": 7, "memoryMib": 9728}]},
    }


def test_a_pool_without_a_ledger_has_no_catalog_yet() -> None:
    assert catalog("nvidia-a100", []) is None
    assert catalog("nvidia-l4", [devices("a", sliceable("S"))]) is None


def test_only_a_ledger_with_a_new_version_is_read_again() -> None:
    ledgers = PoolLedgers("nvidia-a100")
    held = {"id": "S", "index": 0, "mode": 1, "allocated": 1_600_000, "remaining": 0}
    assert ledgers.refresh([devices("a", sliceable("S"))]).printed == "1/1 1/10 100/100 0/0"
    assert ledgers.refresh([devices("a", sliceable("S"), rows=[held])]).printed == "1/1 1/10 100/100 0/0"
    assert ledgers.refresh([devices("a", sliceable("S"), rows=[held], version=2)]).printed == "0/0 0/0 0/0 0/0"
    assert ledgers.refresh([]).exclusive.capacity == 0
