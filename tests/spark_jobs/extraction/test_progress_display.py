"""An extraction's progress after an earlier wait: a bar, or lines without a terminal."""

import io

import pytest

from kafka_zk.spark_jobs.extraction.progress_display import Lines, progress_display

ERASED = "the notice of a wait is gone"


class Screen(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_a_wait_lasts_until_the_first_news(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Screen(is_terminal)
    monkeypatch.setattr("sys.stderr", shown)
    with progress_display(lambda _: None, begins=lambda: print(ERASED, file=shown)) as progress:
        assert shown.getvalue() == ""
        progress(0, 20)
        assert shown.getvalue().startswith(ERASED)
        progress(20, 20)
    assert ("20/20" in shown.getvalue()) == is_terminal


def test_a_line_every_ten_seconds() -> None:
    now_s = 0.0
    told: list[str] = []
    lines = Lines(told.append, lambda: now_s)
    for now_s in (1.0, 9.9, 10.0, 11.0, 20.5):  # noqa: B007
        lines(1_500, 4_000)
    assert told == ["1,500 of 4,000 records read"] * 2
