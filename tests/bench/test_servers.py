"""The numbers that a benchmark reads from the logs of its brokers."""

from tests.bench.servers import native_calls

LINE = "2026-11-29 INFO the native module completed calls check_records=%d read_produce=5\n"


def test_native_calls_of_all_runs_are_added() -> None:
    log = f"started port=9092\n{LINE % 3}\nstarted\n{LINE % 4}"
    assert native_calls(log) == {"check_records": 7, "read_produce": 10}
    assert native_calls("started port=9092\n") == {}
