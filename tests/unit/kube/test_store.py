"""The store holds what the server last said, and tells of exactly the differences."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_ctl.kube.objects import Obj, key_of, labels_of, version_of
from gpustack_ctl.kube.store import Store

Change = tuple[Obj | None, Obj | None]


def pod(name: str, version: int, **labels: str) -> Obj:
    return {"metadata": {"namespace": "ns", "name": name, "resourceVersion": str(version), "labels": labels}}


def told(store: Store) -> list[Change]:
    changes: list[Change] = []
    store.subscribe(lambda old, new: changes.append((old, new)))
    return changes


def versions(changes: list[Change]) -> list[tuple[int | None, int | None]]:
    return [(old and version_of(old), new and version_of(new)) for old, new in changes]


def test_a_list_after_a_gap_tells_exactly_what_happened_in_it() -> None:
    store = Store()
    store.replace([pod("stays", 1), pod("changes", 2), pod("goes", 3)], 3)
    changes = told(store)
    changes.clear()
    store.replace([pod("stays", 1), pod("changes", 5), pod("comes", 6)], 7)
    assert versions(changes) == [(3, None), (2, 5), (None, 6)]
    assert {key_of(obj) for obj in store.list()} == {"ns/stays", "ns/changes", "ns/comes"}


def test_a_handler_sees_the_whole_list_in_place_before_it_is_told_of_any_of_it() -> None:
    store = Store()
    store.replace([pod("old", 1)], 1)
    sizes: list[int] = []
    store.subscribe(lambda old, new: sizes.append(len(store)))
    store.replace([pod("a", 2), pod("b", 3)], 3)
    assert sizes == [1, 2, 2, 2]


def test_a_new_handler_is_told_of_what_is_there() -> None:
    store = Store()
    store.replace([pod("a", 1), pod("b", 2)], 2)
    assert versions(told(store)) == [(None, 1), (None, 2)]


def test_an_ended_subscription_is_told_nothing_more() -> None:
    store = Store()
    changes: list[Change] = []
    unsubscribe = store.subscribe(lambda old, new: changes.append((old, new)))
    store.put(pod("a", 1))
    unsubscribe()
    store.put(pod("a", 2))
    assert versions(changes) == [(None, 1)]


def test_an_event_told_twice_happened_once() -> None:
    store = Store()
    changes = told(store)
    store.put(pod("a", 1))
    store.put(pod("a", 1))
    store.remove(pod("a", 2))
    store.remove(pod("a", 2))
    assert versions(changes) == [(None, 1), (1, None)]


def test_a_failing_handler_stops_nobody() -> None:
    store = Store()

    def fail(old: Obj | None, new: Obj | None) -> None:
        raise RuntimeError("on purpose")

    store.subscribe(fail)
    changes = told(store)
    store.put(pod("a", 1))
    assert versions(changes) == [(None, 1)]


def test_changes_made_by_a_handler_are_told_after_the_one_being_told() -> None:
    store = Store()

    def respond(old: Obj | None, new: Obj | None) -> None:
        if new is not None and version_of(new) == 1:
            store.observe(pod("a", 2))

    store.subscribe(respond)
    changes = told(store)
    store.put(pod("a", 1))
    assert versions(changes) == [(None, 1), (1, 2)]


# Our own writes


def test_our_write_is_seen_before_the_watch_tells_of_it_and_is_not_undone_by_older_news() -> None:
    store = Store()
    store.replace([pod("a", 1)], 1)
    changes = told(store)
    changes.clear()
    store.observe(pod("a", 5))
    store.put(pod("a", 3))
    store.put(pod("a", 5))
    assert versions(changes) == [(1, 5)]
    assert store.get("ns/a") == pod("a", 5)


def test_our_creation_is_seen_at_once_and_survives_an_older_list() -> None:
    store = Store()
    store.replace([], 3)
    store.observe(pod("a", 5))
    store.replace([], 4)
    assert store.get("ns/a") is not None
    store.replace([], 6)
    assert store.get("ns/a") is None


def test_a_late_answer_does_not_bring_back_what_was_deleted() -> None:
    store = Store()
    store.put(pod("a", 1))
    store.remove(pod("a", 4))
    store.observe(pod("a", 3))
    assert store.get("ns/a") is None


def test_a_successor_of_ours_survives_the_news_of_its_namesakes_end() -> None:
    store = Store()
    store.put(pod("a", 1))
    store.observe(pod("a", 5))
    store.remove(pod("a", 3))
    assert store.get("ns/a") == pod("a", 5)


def test_a_partial_store_takes_no_stranger_from_us() -> None:
    store = Store(partial=True)
    store.replace([pod("ours", 1)], 1)
    store.observe(pod("stranger", 5))
    store.observe(pod("ours", 6))
    assert [version_of(obj) for obj in store.list()] == [6]


def test_our_write_that_ends_the_selection_is_followed_by_the_removal_at_the_same_version() -> None:
    store = Store(partial=True)
    store.put(pod("a", 1))
    store.observe(pod("a", 5))
    store.remove(pod("a", 5))
    assert store.get("ns/a") is None


# What is kept


def test_managed_fields_are_not_kept() -> None:
    store = Store()
    obj = pod("a", 1)
    obj["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    store.put(obj)
    assert store.get("ns/a") == pod("a", 1)


def test_keep_decides_what_is_worth_memory() -> None:
    store = Store(keep=lambda obj: {"metadata": obj["metadata"]})
    store.put(pod("a", 1) | {"spec": {"large": True}})
    assert store.get("ns/a") == pod("a", 1)


def test_an_object_that_keep_fails_on_is_kept_whole() -> None:
    store = Store(keep=lambda obj: {"metadata": obj["metadata"], "spec": obj["spec"]})
    store.put(pod("a", 1))
    assert store.get("ns/a") == pod("a", 1)


# Indexes


def test_an_index_follows_its_objects() -> None:
    store = Store()
    store.add_index("node", lambda obj: [labels_of(obj)["node"]])
    store.put(pod("a", 1, node="n1"))
    store.put(pod("b", 2, node="n1"))
    store.put(pod("a", 3, node="n2"))
    assert [key_of(obj) for obj in store.by_index("node", "n1")] == ["ns/b"]
    assert store.by_index("node", "n2") == [pod("a", 3, node="n2")]
    store.remove(pod("a", 4))
    assert store.by_index("node", "n2") == []


def test_an_index_gives_the_newest_object_under_an_unchanged_value() -> None:
    store = Store()
    store.add_index("node", lambda obj: [labels_of(obj)["node"]])
    store.put(pod("a", 1, node="n1", size="small"))
    store.put(pod("a", 2, node="n1", size="large"))
    assert store.by_index("node", "n1") == [pod("a", 2, node="n1", size="large")]


def test_an_index_added_late_knows_what_is_there() -> None:
    store = Store()
    store.put(pod("a", 1, node="n1"))
    store.add_index("node", lambda obj: [labels_of(obj)["node"]])
    assert len(store.by_index("node", "n1")) == 1


def test_an_object_may_have_many_values_or_none() -> None:
    store = Store()
    store.add_index("labels", lambda obj: labels_of(obj).keys())
    store.put(pod("a", 1, x="1", y="2"))
    store.put(pod("b", 2))
    assert [len(store.by_index("labels", value)) for value in "xyz"] == [1, 1, 0]


def test_an_object_that_an_index_fails_on_is_still_there() -> None:
    store = Store()
    store.add_index("node", lambda obj: [labels_of(obj)["node"]])
    store.put(pod("a", 1, node="n1"))
    store.put(pod("a", 2))
    assert store.get("ns/a") is not None
    assert store.by_index("node", "n1") == []


def test_two_indexes_of_one_name_are_a_mistake() -> None:
    def by_node(obj: Obj) -> list[str]:
        return [labels_of(obj)["node"]]

    store = Store()
    store.add_index("node", by_node)
    store.add_index("node", by_node)
    with pytest.raises(ValueError, match="node"):
        store.add_index("node", lambda obj: [])


# However news overtakes news


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[tuple[str, Obj]], list[Any]]:
    """What happens on a server, and an order in which a store may hear of it.

    Each step either lets the watch tell one more event, repeats the last (a watch resumed too early), lists at a later
    moment, or delivers the answer to a write of ours, which may be late or ahead of the watch.
    """
    events: list[tuple[str, Obj]] = []
    alive: set[str] = set()
    for version in range(1, draw(st.integers(1, 25)) + 1):
        name = draw(st.sampled_from("abc"))
        if name in alive and draw(st.booleans()):
            alive.discard(name)
            events.append(("DELETED", pod(name, version)))
        else:
            events.append(("MODIFIED" if name in alive else "ADDED", pod(name, version)))
            alive.add(name)
    steps = draw(st.lists(st.tuples(st.sampled_from(["tell", "repeat", "list", "answer"]), st.integers(0, 24))))
    return events, steps


def state_after(events: list[tuple[str, Obj]]) -> dict[str, int]:
    state: dict[str, int] = {}
    for kind, obj in events:
        if kind == "DELETED":
            state.pop(key_of(obj), None)
        else:
            state[key_of(obj)] = version_of(obj)
    return state


@given(histories())
def test_a_store_ends_true_whatever_overtakes_what(history: tuple[list[tuple[str, Obj]], list[Any]]) -> None:
    events, steps = history
    store = Store()
    changes = told(store)
    at = 0

    def tell(kind: str, obj: Obj) -> None:
        (store.remove if kind == "DELETED" else store.put)(obj)

    for step, where in steps:
        if step == "tell" and at < len(events):
            tell(*events[at])
            at += 1
        elif step == "repeat" and at:
            tell(*events[at - 1])
        elif step == "list":
            at = max(at, where % (len(events) + 1))
            state = state_after(events[:at])
            store.replace([pod(key.removeprefix("ns/"), version) for key, version in state.items()], at)
        elif step == "answer":
            kind, obj = events[where % len(events)]
            if kind != "DELETED":
                store.observe(obj)
    for kind, obj in events[at:]:
        tell(kind, obj)

    assert {key_of(obj): version_of(obj) for obj in store.list()} == state_after(events)
    assert_each_change_begins_where_the_last_ended(changes)


def assert_each_change_begins_where_the_last_ended(changes: list[Change]) -> None:
    for key in {key_of(new or old or {}) for old, new in changes}:
        chain = [(old, new) for old, new in changes if key_of(new or old or {}) == key]
        assert chain[0][0] is None
        assert all(before[1] == after[0] for before, after in pairwise(chain))
        assert all(old is None or new is None or version_of(old) < version_of(new) for old, new in chain)
