"""The demo's last step: skipped with a sentence where Spark cannot run, and strict about the extracted records."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.learn.demo import run
from kafka_zk.learn.demo.demo_lake import DemoLake
from kafka_zk.learn.demo.errors import DemoFailed
from kafka_zk.learn.demo.run import Demo
from kafka_zk.learn.demo.show import Silent
from kafka_zk.learn.demo.tally import Tally


class Shown(Silent):
    def __init__(self) -> None:
        self.facts: list[str] = []

    def fact(self, text: str) -> None:
        self.facts.append(text)


class Lake(DemoLake):
    """The result of an extraction: the number of flights of each carrier."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def extract(self, progress: Any = None) -> dict[str, Any]:
        return {"records": 3, "seconds": 1.0, "lag_before": 3, "lag_after": 0, "published": ["file:/lake/range=x"]}

    def count_by(self, column: str, folders: Any) -> dict[str, int]:  # type: ignore[override]
        return self.counts


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    monkeypatch.setattr(run, "find_flights", lambda: tmp_path / "flights.csv.zip")
    return Demo(tmp_path, False, Shown())


def facts(demo: Demo) -> list[str]:
    assert isinstance(demo._show, Shown)
    return demo._show.facts


@pytest.fixture
def new() -> Tally:
    tally = Tally()
    for key in (b"UA", b"UA", b"B6"):
        tally.add(key, b"{}")
    return tally


def test_without_spark_the_step_is_left_out_in_one_sentence(
    demo: Demo, new: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "obstacle", lambda: "Spark needs numba: pip install 'kafka-zk[spark]'")
    with ExitStack() as cleanup:
        demo._show_extraction(demo._start_spark(cleanup), new)
    assert facts(demo) == ["left out: Spark needs numba: pip install 'kafka-zk[spark]'"]
    assert demo._report["extractions"] == []


def test_what_was_extracted_is_what_was_new(demo: Demo, new: Tally) -> None:
    assert demo._extract(Lake({"UA": 2, "B6": 1}), new)["carriers"] == {"B6": 1, "UA": 2}


@pytest.mark.parametrize("counts", [{"UA": 2}, {"UA": 2, "B6": 2}, {"UA": 2, "B6": 1, "AA": 1}])
def test_a_flight_too_few_or_too_many_fails_the_demo(demo: Demo, new: Tally, counts: dict[str, int]) -> None:
    with pytest.raises(DemoFailed, match="were new but"):
        demo._extract(Lake(counts), new)


def test_each_step_says_how_long_it_took(demo: Demo) -> None:
    with demo._step(4, "Where it is stored"):
        demo._show.fact("there")
    assert facts(demo)[0] == "there" and re.fullmatch(r"\(\d+\.\d s\)", facts(demo)[1])
    assert list(demo._report["step_seconds"]) == [4]
