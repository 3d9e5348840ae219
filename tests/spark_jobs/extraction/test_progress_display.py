"""The lines that stand for bars where there is no terminal."""

from kafka_zk.spark_jobs.extraction.progress_display import Lines


def test_a_line_every_ten_seconds() -> None:
    now_s = 0.0
    told: list[str] = []
    lines = Lines(told.append, lambda: now_s)
    for now_s in (1.0, 9.9, 10.0, 11.0, 20.5):  # noqa: B007
        lines(1_500, 4_000)
    assert told == ["1,500 of 4,000 records read"] * 2
