"""The demo and the process in which its Spark runs, without Spark."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_zk.learn.demo import demo_lake
from kafka_zk.learn.demo.demo_lake import DemoLake
from kafka_zk.learn.demo.errors import DemoFailed

Start = Callable[[dict[str, object]], DemoLake]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """``start(config)``: a lake with a worker that behaves as the configuration says; closed at the end."""
    monkeypatch.setattr(demo_lake, "_WORKER", "tests.kafka_zk.learn.demo.fake_worker")
    lakes: list[DemoLake] = []

    def begin(config: dict[str, object]) -> DemoLake:
        monkeypatch.setattr(demo_lake, "_SPARK", config)
        lakes.append(DemoLake(tmp_path / "lake", "h:2181", "flights"))
        lakes[-1].start()
        return lakes[-1]

    yield begin
    for lake in lakes:
        lake.close()


def note(seen: list[tuple[int, ...]], *told: int) -> None:
    seen.append(told)


def test_one_process_extracts_any_number_of_times(start: Start, tmp_path: Path) -> None:
    lake = start({})
    assert lake.wait_started()[0] == 1.5
    for _ in range(2):
        seen: list[tuple[int, ...]] = []
        report = lake.extract(partial(note, seen))
        assert seen == [(done, 1000) for done in range(1000)]
        assert (report["asked"]["topics"], report["asked"]["target"]) == (["flights"], str(tmp_path / "lake"))
    lake.close()
    assert lake._process is not None and lake._process.returncode == 0


def test_spark_that_does_not_start_fails_the_demo_with_its_sentence(start: Start) -> None:
    lake = start({"fails": "Spark did not start: no memory"})
    with pytest.raises(DemoFailed, match=r"^Spark did not start: no memory$"):
        lake.wait_started()
    with pytest.raises(DemoFailed):
        start({"fails": "no memory"}).extract()


def test_a_spark_that_is_still_starting_is_ended_at_once(start: Start) -> None:
    lake = start({"hangs": True})
    lake.close()
    assert lake._process is not None and lake._process.returncode != 0
