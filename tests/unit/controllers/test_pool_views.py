"""A pool's catalog: what its cards can do, whoever holds them now."""

from typing import Any

from gpustack_ctl.controllers.pool_views import PoolLedgers


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


def ledgers_of(akey: str, *members: Any) -> PoolLedgers:
    ledgers = PoolLedgers(akey)
    ledgers.refresh(members)
    return ledgers


def test_everything_that_some_card_offers_is_on_offer() -> None:
    detail = ledgers_of("nvidia-a100", devices("b", partitioned("P")), devices("a", sliceable("S"))).catalog()
    assert detail is not None
    assert (detail["manufacturer"], detail["product"], detail["memory"]) == ("nvidia", "NVIDIA A100", "81920Mi")
    assert detail["slicedDetail"] == {
        "logical": {"count": 128, "coresPercentageOvercommit": True},
        "physical": {"count": 7, "profiles": [{"name": "1g.10gb", "count": 7, "memoryMib": 9728}]},
    }


def test_a_pool_without_a_ledger_has_no_catalog_yet() -> None:
    assert ledgers_of("nvidia-a100").catalog() is None
    assert ledgers_of("nvidia-l4", devices("a", sliceable("S"))).catalog() is None


def test_a_node_that_leaves_takes_what_only_it_offered() -> None:
    ledgers = ledgers_of("nvidia-a100", devices("b", partitioned("P")), devices("a", sliceable("S")))
    ledgers.refresh([devices("a", sliceable("S"))])
    assert "physical" not in (ledgers.catalog() or {})["slicedDetail"]


def test_only_a_ledger_with_a_new_version_is_read_again() -> None:
    held = {"id": "S", "index": 0, "mode": 1, "allocated": 1_600_000, "remaining": 0}
    ledgers = ledgers_of("nvidia-a100", devices("a", sliceable("S")))
    assert ledgers.views().printed == "1/1 1/10 100/100 0/0"
    ledgers.refresh([devices("a", sliceable("S"), rows=[held])])
    assert ledgers.views().printed == "1/1 1/10 100/100 0/0"
    ledgers.refresh([devices("a", sliceable("S"), rows=[held], version=2)])
    assert ledgers.views().printed == "0/0 0/0 0/0 0/0"
    ledgers.refresh([])
    assert ledgers.views().exclusive.capacity == 0
