"""Lines in the layout of Kafka's log4j.properties."""

from datetime import UTC
from time import thread_time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.recorder.broker_logs.log_line import LogLine, parse

LINE = "[2026-11-30 00:21:48,029] INFO [Controller id=2] Shutting down broker 1 (kafka.controller.KafkaController)"


def test_a_line_has_its_parts_and_its_time_in_the_zone() -> None:
    parsed = parse(LINE, UTC)
    assert parsed == LogLine(
        1_795_998_108_029, "INFO", "Controller id=2", "Shutting down broker 1", "kafka.controller.KafkaController"
    )  # fmt: skip
    tokyo = parse(LINE, ZoneInfo("Asia/Tokyo"))
    assert tokyo is not None and parsed.time_ms - tokyo.time_ms == 9 * 3_600_000


@pytest.mark.parametrize(
    ("prefix", "broker_id"),
    [
        ("[KafkaServer id=3] ", 3), ("[GroupCoordinator 2]: ", 2), ("[Partition orders-7 broker=2] ", 2),
        ("[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] ", 1), ("[Controller id=4 epoch=9] ", 4),
        ("[ReplicaFetcherManager on broker 5] ", 5), ("[UnifiedLog partition=orders-7, dir=/data] ", None), ("", None),
    ],
)  # fmt: skip
def test_a_prefix_tells_the_broker(prefix: str, broker_id: int | None) -> None:
    parsed = parse(f"[2026-11-30 00:21:48,029] WARN {prefix}text (a.b.C$D)", UTC)
    assert parsed is not None and (parsed.broker_id, parsed.message, parsed.logger) == (broker_id, "text", "a.b.C$D")


@pytest.mark.parametrize(
    "line",
    ["", "\tat kafka.server.KafkaServer.startup(KafkaServer.scala:1)", "2026-11-30 00:21:48,029 INFO text (a.B)",
     "[2026-13-30 00:21:48,029] INFO text (a.B)", "[2026-11-30 00:21:48] INFO text"],
)  # fmt: skip
def test_other_lines_are_none(line: str) -> None:
    assert parse(line, UTC) is None


@given(st.text(max_size=300))
def test_any_text_is_a_line_or_none(text: str) -> None:
    parse(text, UTC)
    parse(f"[2026-11-30 00:21:48,029] INFO {text}", None)


@pytest.mark.parametrize("filler", [" ", "(", " (", ") ", " (a", "[", "\t"])
def test_a_long_line_costs_no_more_than_its_length(filler: str) -> None:
    """The line has the maximum length. In an earlier version, 16 kB of spaces took more than a second."""
    line = f"[2026-11-30 00:21:48,029] INFO x{filler * (16_384 // len(filler))}x"
    began_s = thread_time()
    parse(line, UTC)
    assert thread_time() - began_s < 0.2


def test_spaces_at_the_end_are_no_part_of_the_message() -> None:
    assert parse(f"{LINE}  \t ", UTC) == parse(LINE, UTC)
