"""The data that consumers exchange through the broker, compared with another client's decoder."""

from __future__ import annotations

import contextlib

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.consumer_protocol import (
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kafka_zk.protocol.errors import ProtocolError

NAMES = st.text("abcé.-", min_size=1, max_size=8)
TPS = st.frozensets(st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), max_size=6)
SUBSCRIPTIONS = st.builds(Subscription, st.lists(NAMES, max_size=4).map(tuple), TPS, st.integers(-1, 2**31 - 1))


@given(SUBSCRIPTIONS)
def test_what_is_written_is_read(subscription: Subscription) -> None:
    assert read_subscription(write_subscription(subscription)) == subscription


@given(SUBSCRIPTIONS)
def test_old_clients_find_the_topics_where_they_look(subscription: Subscription) -> None:
    """Old clients know only version 0, and ignore what follows."""
    found = ConsumerProtocolMemberMetadata.decode(write_subscription(subscription))
    assert tuple(found.subscription) == subscription.topics


@given(st.lists(NAMES, max_size=4), st.binary(max_size=6))
def test_what_old_clients_write_is_understood(topics: list[str], user_data: bytes) -> None:
    written = ConsumerProtocolMemberMetadata(0, topics, user_data).encode()
    found = read_subscription(written)
    assert (found.topics, found.owned) == (tuple(topics), frozenset())


def test_a_java_client_before_3_4_tells_its_generation_in_the_user_data() -> None:
    """The encoding is that of CooperativeStickyAssignor in subscription version 1."""
    written = b"\0\1" + b"\0\0\0\1\0\1t" + b"\0\0\0\4\0\0\0\7" + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\3"
    assert read_subscription(written) == Subscription(("t",), frozenset({TopicPartition("t", 3)}), 7)


@given(TPS)
def test_an_assignment_is_read_by_others_and_by_us(tps: frozenset[TopicPartition]) -> None:
    written = write_assignment(tps)
    found = ConsumerProtocolMemberAssignment.decode(written)
    assert sorted(TopicPartition(*each) for each in found.partitions()) == read_assignment(written) == sorted(tps)


def test_nothing_at_all_is_an_empty_assignment() -> None:
    assert read_assignment(b"") == []


@given(st.binary(max_size=40))
def test_nonsense_is_a_protocol_error(noise: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with contextlib.suppress(ProtocolError):
            read(noise)


@pytest.mark.parametrize("size", range(len(write_assignment([TopicPartition("t", 1)])) - 4))
def test_a_cut_assignment_is_a_protocol_error(size: int) -> None:
    if size:
        with pytest.raises(ProtocolError):
            read_assignment(write_assignment([TopicPartition("t", 1)])[:size])
