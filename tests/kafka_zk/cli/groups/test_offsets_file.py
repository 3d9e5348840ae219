"""Offsets as text: the format of Kafka's ExportZkOffsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups import offsets_file
from kafka_zk.cli.terminal.errors import CommandFailed

NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True)
OFFSETS = st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 2000)), st.integers(0, 2**62), min_size=1)


def test_one_znode_on_each_line() -> None:
    offsets = {TopicPartition("t", 10): 5, TopicPartition("t", 9): 2**40}
    text = ["/consumers/g/offsets/t/9:1099511627776", "/consumers/g/offsets/t/10:5"]
    assert list(offsets_file.lines("g", offsets)) == text
    assert offsets_file.parse([*text, "", "\n"]) == {"g": offsets}


@pytest.mark.slow
@given(st.dictionaries(NAMES, OFFSETS, max_size=3))
def test_what_is_written_is_read(groups: dict[str, dict[TopicPartition, int]]) -> None:
    text = [line for group, offsets in groups.items() for line in offsets_file.lines(group, offsets)]
    assert offsets_file.parse(f"{line}\n" for line in text) == groups


@pytest.mark.parametrize(
    "line", ["", "/consumers/g/offsets/t/0", "/consumers/../offsets/t/0:1", "/consumers/g/offsets/t/0:-1", "x"]
)
def test_anything_else_is_told_with_its_line(line: str) -> None:
    good = "/consumers/g/offsets/t/0:1"
    if not line:
        assert offsets_file.parse([good, line]) == {"g": {TopicPartition("t", 0): 1}}
        return
    with pytest.raises(CommandFailed, match="line 2 is not of the form"):
        offsets_file.parse([good, line])
