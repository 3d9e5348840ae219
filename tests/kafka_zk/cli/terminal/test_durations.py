"""Durations and times in the form that Kafka's tools take."""

import click
import pytest

from kafka_zk.cli.terminal.durations import parse_duration_ms, parse_time_ms, time_text


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("P1D", 86_400_000), ("PT2H30M", 9_000_000), ("P1DT1S", 86_401_000), ("pt0.5s", 500), ("P0DT0H0M0S", 0)],
)
def test_days_and_times(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "1D", "P1H", "PT1D", "P-1D", "P1.5D", "PT1M1H", "P1Y"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize("time_ms", [0, 1_795_737_658_001, 1_795_737_658_123, 1_795_737_658_999])
def test_a_time_is_exact_to_the_millisecond(time_ms: int) -> None:
    seconds, ms = divmod(time_ms, 1000)
    assert parse_time_ms(time_text(seconds * 1000).replace("Z", f".{ms:03}Z")) == time_ms


def test_the_text_of_a_time() -> None:
    assert time_text(5_000) == "1970-01-01T00:00:05Z"
    assert time_text(10**18) == "1000000000000000000", "there is no such year"
