"""What viewers follow is the presenter's last state, and nothing that no page shows."""

from typing import Any

import pytest

from kafka_zk.recorder.web.presentation import MOST_CHARACTERS, MOST_FOLDS, BadPresentation, Presentation

SHOWN: dict[str, Any] = {
    "seq": 7, "at": 1_700_000_000_000, "view": "tree", "chosen": 7, "znode": "/brokers", "below": "",
    "filter": "flights", "window_s": 60, "every": False, "folds": {"opened": ["topic flights"], "closed": []},
    "episode": {"seq": 5, "subject": "cluster"}, "slowly": {"step": 2, "until_ms": None},
    "lesson": {"step": -1, "asks": False, "answer": None, "is_skipped": False},
}  # fmt: skip
LIVE = SHOWN | dict.fromkeys(("seq", "at", "chosen", "znode", "episode", "slowly", "lesson"))


def test_viewers_have_nothing_to_follow_before_the_presenter_has_begun() -> None:
    assert Presentation().document() is None


def test_each_state_that_differs_has_a_number_of_its_own() -> None:
    presentation = Presentation()
    assert presentation.present(SHOWN)
    assert not presentation.present(dict(SHOWN)), "the same state again"
    assert presentation.document() == {"number": 1, "shown": SHOWN}
    assert presentation.present(LIVE)
    assert presentation.document() == {"number": 2, "shown": LIVE}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seq": -1}, "seq"), ({"seq": True}, "seq"), ({"seq": 1.5}, "seq"), ({"seq": 2**53}, "seq"),
        ({"at": "1"}, "at"), ({"below": None}, "below"), ({"window_s": None}, "window_s"), ({"every": 1}, "every"),
        ({"view": "values"}, "view"), ({"view": None}, "view"), ({"view": []}, "view"), ({"znode": 1}, "znode"),
        ({"filter": "x" * (MOST_CHARACTERS + 1)}, "filter"), ({"folds": {"opened": []}}, "folds"),
        ({"folds": {"opened": [1], "closed": []}}, "opened"),
        ({"folds": {"opened": [], "closed": [""] * (MOST_FOLDS + 1)}}, "closed"), ({"episode": {"seq": 1}}, "episode"),
        ({"slowly": {"step": -1, "until_ms": None}}, "step"), ({"lesson": []}, "lesson"), ({"more": 1}, "the state"),
    ],
)  # fmt: skip
def test_a_state_that_no_page_shows_is_refused_and_the_last_one_stays(change: dict[str, Any], named: str) -> None:
    presentation = Presentation()
    presentation.present(SHOWN)
    with pytest.raises(BadPresentation, match=f"^{named} must be"):
        presentation.present(LIVE | change)
    assert presentation.document() == {"number": 1, "shown": SHOWN}


@pytest.mark.parametrize("told", [None, 1, "x", [], {}, {"seq": 1}])
def test_what_is_no_state_is_refused(told: Any) -> None:
    with pytest.raises(BadPresentation):
        Presentation().present(told)
