"""Transcripts may contain lines that are optional in the output."""

import pytest

from tests.integration.commands.transcript import with_optional

WRITTEN = ["zookeeper", "? broker 0", "? broker 1", "Interrupted", "[130]"]


@pytest.mark.parametrize("between", [[], ["broker 0"], ["broker 1"], ["broker 0", "broker 1"]], ids=str)
def test_an_optional_line_may_be_missing(between: list[str]) -> None:
    assert with_optional(["zookeeper", *between, "Interrupted"], WRITTEN) == WRITTEN[:-1]


@pytest.mark.parametrize(
    "seen",
    [
        ["zookeeper", "broker 2", "Interrupted"],
        ["zookeeper", "broker 1", "broker 0", "Interrupted"],
        ["zookeeper", "broker 0", "broker 0", "Interrupted"],
        ["broker 0", "Interrupted"],
        ["zookeeper", "broker 0"],
        ["zookeeper", "broker 0", "Interrupted", "Traceback"],
    ],
    ids=" ".join,
)
def test_anything_else_is_a_difference(seen: list[str]) -> None:
    assert with_optional(seen, WRITTEN) != WRITTEN[:-1]
