"""The picture as a program reads it: what `top --output json` prints."""

from typing import Any

from gpustack_ctl.top.picture import CardRow, Picture, PoolRow


def document(picture: Picture) -> dict[str, Any]:
    """One document. `mode` is the ledger's number; views are the fields of `InstanceType.status`."""
    return {
        "pools": [_pool(pool) for pool in picture.pools],
        "nodes": [{"name": node.name, "cards": [_card(card) for card in node.cards]} for node in picture.nodes],
        "pending": [
            {"workload": each.workload, "queue": each.queue, "since": each.since, "message": each.message}
            for each in picture.pending
        ],
    }


def _pool(pool: PoolRow) -> dict[str, Any]:
    return {"name": pool.name, "entrance": pool.entrance, "phase": pool.phase, **pool.views}


def _card(card: CardRow) -> dict[str, Any]:
    return {
        "id": card.id,
        "index": card.index,
        "model": card.model,
        "mode": int(card.mode),
        "allocated": card.allocated,
        "remaining": card.remaining,
        "slices": card.slices,
        "unhealthy": card.unhealthy,
        "pods": list(card.pods),
    }
