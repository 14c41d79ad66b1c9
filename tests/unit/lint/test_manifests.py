"""Reading files: every notation, the line of every object, and files that are none."""

import pytest

from gpustack_ctl.lint.manifests import ManifestError, read

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def lines(text: str) -> list[tuple[int, str]]:
    return [(found.line, found.object["metadata"]["name"]) for found in read(text.encode(), source="f")]


def test_yaml_documents_keep_their_lines():
    text = f"# a comment\n---\n{POD % 'a'}---\n# nothing here\n---\n{POD % 'b'}"
    assert lines(text) == [(3, "a"), (9, "b")]


def test_a_list_counts_as_what_it_holds():
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n- kind: Pod\n  metadata: {name: b}\n"
    )
    assert lines(text) == [(4, "a"), (6, "b")]


def test_lists_may_hold_lists():
    inner = "{kind: List, items: [{kind: Pod, metadata: {name: a}}]}"
    assert lines(f"kind: List\nitems:\n- {inner}\n") == [(3, "a")]


def test_a_list_of_one_kind_names_it_for_its_items():
    text = "apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: a}\n"
    (found,) = read(text.encode(), source="f")
    assert (found.object["apiVersion"], found.object["kind"]) == ("apps/v1", "Deployment")


def test_json_values_may_follow_one_another():
    one = '{"kind": "Pod",\n\t"metadata": {"name": "%s"}}\n'
    assert lines(one % "a" + one % "b") == [(1, "a"), (3, "b")]


def test_a_json_list_keeps_the_lines_of_its_items():
    text = """
{
  "kind": "List", "metadata": {"resourceVersion": ""},
  "items": [
    {"kind": "Pod",
     "metadata": {"name": "a", "annotations": {"items": "]}"}}},

    {"kind": "Pod", "metadata": {"name": "b"}}
  ]
}
"""
    assert lines(text) == [(5, "a"), (8, "b")]


def test_yaml_may_begin_with_a_brace():
    assert lines("{kind: Pod, metadata: {name: a}}\n---\n" + POD % "b") == [(1, "a"), (3, "b")]


def test_what_yaml_would_make_a_date_stays_text():
    (found,) = read(b"kind: Pod\nmetadata:\n  labels: {since: 2026-12-01}\n", source="f")
    assert found.object["metadata"]["labels"] == {"since": "2026-12-01"}


def test_a_byte_order_mark_is_no_fault():
    (found,) = read(b"\xef\xbb\xbfkind: Pod\n", source="f")
    assert found.object == {"kind": "Pod"}


def test_an_empty_file_holds_nothing():
    assert read(b"", source="f") == []
    assert read(b"---\n---\n# nothing\n", source="f") == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"kind: Pod\nmetadata: {name: a\nspec: {}\n", "f:3: not valid YAML: "),
        (b"kind: Pod\nname: !secret x\n", "f:2: not valid YAML: could not determine a constructor"),
        (b"kind: Pod\nname: *nowhere\n", "f:2: not valid YAML: found undefined alias"),
        (b"kind: Pod\nname: \x07\n", "f:2: not valid YAML: "),
        (b"kind: Pod\nname: \xff\n", "f:2: byte 0xff is not UTF-8; save the file as UTF-8"),
        (b'{"kind": "Pod",\n "name" "a"}\n', "f:2: not valid JSON: Expecting ':' delimiter"),
        (b'{"kind": "Pod"', "f:1: not valid JSON: Expecting"),
        (b"kind: Pod\n---\n- a\n- b\n", "f:3: not a Kubernetes object; write its apiVersion and kind"),
        (b"kind: 5\n", "f:1: not a Kubernetes object"),
        (b"just words\n", "f:1: not a Kubernetes object"),
        (b"kind: List\nitems:\n- kind: Pod\n- 7\n", "f:4: not a Kubernetes object"),
        (b"kind: Pod\nnumber: " + b"9" * 5000, "f:1: not a manifest: Exceeds the limit"),
        (b"a: " + b"[" * 5000, "f:1: not valid YAML: exceeded maximum nesting depth"),
        (b'{"a": ' + b"[" * 100_000, "f:1: nested too deeply to be a manifest"),
        (b"kind: Pod\nspec: &a\n  again: *a\n", "f:2: an alias leads back into its own anchor"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(data: bytes, said: str):
    with pytest.raises(ManifestError) as fault:
        read(data, source="f")
    assert str(fault.value).startswith(said)


def test_aliases_of_aliases_are_refused_before_anybody_writes_them_out():
    doubled = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 64))
    with pytest.raises(ManifestError, match=r"f:1: its aliases expand to more than a manifest can hold"):
        read(f"kind: Pod\na0: &a0 [x]\n{doubled}".encode(), source="f")
    (found,) = read(b"kind: Pod\na: &a {x: 1}\nb: *a\n", source="f")
    assert found.object["b"] == {"x": 1}
