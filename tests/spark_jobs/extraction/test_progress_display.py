"""The lines that stand for bars where there is no terminal."""

from kafka_zk.spark_jobs.extraction.progress_display import Lines
from kafka_zk.storage.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_line_every_ten_seconds() -> None:
    now_s = 0.0
    told: list[str] = []
    lines = Lines(told.append, lambda: now_s)
    for now_s in (1.0, 9.9, 10.0, 11.0, 20.5):  # noqa: B007
        lines({T0: (1_000, 2_000), T1: (500, 2_000)})
    assert told == ["1,500 of 4,000 records read"] * 2
