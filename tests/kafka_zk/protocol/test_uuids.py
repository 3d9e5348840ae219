"""Topic ids as strings and as UUIDs."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol import uuids


@given(st.uuids())
def test_text_and_uuid_are_the_same(topic_id: uuid.UUID) -> None:
    """A string of 22 characters becomes a UUID and the same string again."""
    text = uuids.to_text(topic_id)
    assert len(text) == 22
    assert uuids.from_text(text) == topic_id


def test_an_id_seen_on_a_real_cluster() -> None:
    """The id is the topic id of a Kafka 3.9.1 znode."""
    assert uuids.to_text(uuids.from_text("YTI9vJfzQOepxQr8vcaMoQ")) == "YTI9vJfzQOepxQr8vcaMoQ"
