"""A consumer's assignment, as other clients encode it, and malformed ones."""

import contextlib

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol.consumer_protocol import read_assignment
from kafka_zk.protocol.errors import ProtocolError

ASSIGNMENTS = st.dictionaries(st.text("abcé.-", min_size=1, max_size=8), st.sets(st.integers(0, 2**31 - 1), max_size=5))


@given(ASSIGNMENTS, st.integers(0, 3), st.binary(max_size=5))
def test_what_a_client_writes_is_read(topics: dict[str, set[int]], version: int, user_data: bytes) -> None:
    listed = [(name, list(numbers)) for name, numbers in topics.items()]
    written = ConsumerProtocolMemberAssignment(version, listed, user_data)
    expected = sorted((name, number) for name, numbers in topics.items() for number in numbers)
    assert read_assignment(written.encode()) == expected


@given(st.binary(max_size=40))
def test_anything_else_is_a_protocol_error(noise: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        read_assignment(noise)


def test_no_bytes_are_no_partitions_and_cut_ones_an_error() -> None:
    written = ConsumerProtocolMemberAssignment(0, [("t", [1, 2])], b"").encode()
    assert read_assignment(b"") == []
    for size in range(1, len(written) - 4):
        with pytest.raises(ProtocolError):
            read_assignment(written[:size])
