"""An explanation in its two forms."""

from gpustack_ctl.explain.answers import GATES, Answer, Explanation
from gpustack_ctl.explain.report import document, text

HELD = Answer(3, "GPU-0 held whole", "held", "0 free", "the end of Pod team/a")
ANSWERS = [
    Answer(1, "nvidia.com/gpu=1", "passed"),
    Answer(2, "", "passed"),
    HELD,
    *(Answer(n, "", "waiting") for n in (4, 5)),
]


def test_the_document_has_every_field_of_every_gate() -> None:
    written = document(Explanation("Pod", "team", "late", ANSWERS, pin={"v": 1}))
    assert [gate["gate"] for gate in written["gates"]] == [1, 2, 3, 4, 5]
    assert [gate["name"] for gate in written["gates"]] == list(GATES.values())
    assert written["gates"][2] == {
        "gate": 3,
        "name": "AdmissionCheck",
        "saw": "GPU-0 held whole",
        "answered": "held",
        "message": "0 free",
        "change": "the end of Pod team/a",
    }
    assert (written["kind"], written["namespace"], written["name"]) == ("Pod", "team", "late")
    assert written["pin"] == {"v": 1} and written["plan"] is None


def test_the_text_says_nothing_where_there_is_nothing_to_say() -> None:
    assert [*text(Explanation("Pod", "team", "late", ANSWERS, plan={"v": 1}))] == [
        "Pod team/late",
        "✓ 1 Pod webhook: passed",
        "    saw    nvidia.com/gpu=1",
        "✓ 2 Kueue credits: passed",
        "⏸ 3 AdmissionCheck: held",
        "    saw    GPU-0 held whole",
        "    said   0 free",
        "    needs  the end of Pod team/a",
        "… 4 scheduler and kubelet: waiting",
        "… 5 device plugin: waiting",
        'plan: {"v":1}',
    ]
