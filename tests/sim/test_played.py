"""The record of played seeds: consecutive ranges are joined, and a seed counts once."""

from pathlib import Path

import pytest

from tests.sim import played


@pytest.fixture(autouse=True)
def of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played, "FILE", tmp_path / "played.txt")
    monkeypatch.setattr(played, "commit", lambda: "abc")


def test_a_range_that_follows_is_joined() -> None:
    for seed in range(3):
        played.record("seeds", seed, seed, int(seed == 1))
    played.record("scripts", 3, 4, 0)
    assert played.recorded() == [
        played.Range("seeds", "abc", 0, 2, 1),
        played.Range("scripts", "abc", 3, 4, 0),
    ]


def test_a_seed_that_was_played_on_two_commits_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played.record("seeds", 0, 9, 0)
    monkeypatch.setattr(played, "commit", lambda: "def")
    played.record("seeds", 5, 14, 0)
    assert played.total("seeds") == 15


def test_the_summary_says_how_many_on_which_commit(capsys: pytest.CaptureFixture[str]) -> None:
    played.record("seeds", 0, 9, 2)
    played.main()
    assert capsys.readouterr().out == "seeds: 10 on abc, 2 failed\nseeds: 10 different ones in all\n"


def test_a_campaign_that_is_to_be_recorded_has_failed_if_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    with played.campaign("rounds", 1):
        pass
    assert played.recorded() == []
    monkeypatch.setenv(played.ASKED, "1")
    with played.campaign("rounds", 1):
        pass
    with pytest.raises(AssertionError), played.campaign("rounds", 2):
        raise AssertionError
    assert played.recorded() == [played.Range("rounds", "abc", 1, 2, 1)]
