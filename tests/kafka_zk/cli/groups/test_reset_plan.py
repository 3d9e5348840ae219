"""Offsets as Kafka's kafka-consumer-groups exports them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups import reset_plan
from kafka_zk.cli.terminal.errors import CommandFailed

TPS = st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,8}", fullmatch=True), st.integers(0, 2000))


@given(st.dictionaries(TPS, st.integers(0, 2**62), min_size=1))
def test_what_is_written_is_read(offsets: dict[TopicPartition, int]) -> None:
    assert reset_plan.parse((f"{line}\n" for line in reset_plan.lines(offsets)), "g") == offsets


def test_lines_may_name_the_group() -> None:
    text = ["g,t,0,5\n", "\n", '"g","t",1,6\n', "other,t,0,1\n"]
    assert reset_plan.parse(text, "g") == {("t", 0): 5, ("t", 1): 6}
    with pytest.raises(CommandFailed, match="has no offsets of group nobody"):
        reset_plan.parse(text, "nobody")


@pytest.mark.parametrize("line", ["t,0", "t,0,-1", "t,x,1", ",0,1", "a,g,t,0,1", "t", "t,²,1", "t" * 200_000])
def test_anything_else_is_told_with_its_line(line: str) -> None:
    with pytest.raises(CommandFailed, match="line 2 is not of the form"):
        reset_plan.parse(["t,0,1\n", line], "g")
