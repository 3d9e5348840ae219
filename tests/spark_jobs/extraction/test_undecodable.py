"""When undecodable values are a failure."""

import pytest

from kafka_zk.spark_jobs.extraction.undecodable import CHOICES, Staged, place, refusal


@pytest.mark.parametrize("choice", CHOICES)
def test_all_of_them_always_are(choice: str) -> None:
    told = refusal(Staged(records=7, values=5, undecodable=5, first="offset 3 of t-0"), "json", choice)
    assert told is not None
    assert told.startswith("none of the 5 values is JSON that matches the schema (the first is at offset 3 of t-0)")


def test_some_of_them_are_unless_it_was_said_otherwise() -> None:
    staged = Staged(records=7, values=5, undecodable=1, first="offset 3 of t-0")
    assert refusal(staged, "avro", "fail") == (
        "1 of 5 values are not Avro that matches the schema (the first is at offset 3 of t-0), so nothing was "
        "published: give --on-undecodable null or keep to extract them"
    )
    assert refusal(staged, "avro", "null") is None
    assert refusal(staged, "avro", "keep") is None


@pytest.mark.parametrize("staged", [Staged(0), Staged(3), Staged(3, 0, 0), Staged(3, 3, 0)])
def test_none_of_them_never_is(staged: Staged) -> None:
    assert refusal(staged, "string", "fail") is None
    assert refusal(staged, None, "fail") is None


def test_a_place_has_its_reason() -> None:
    assert place("t", 0, 3, None) == place("t", 0, 3, "") == "offset 3 of t-0"
    assert place("t", 0, 3, "no such schema") == "offset 3 of t-0: no such schema"
