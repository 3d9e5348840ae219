"""Message classes: the value of a field that was not set, and the mistakes that are detected."""

import pytest

from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.message import message_class

METADATA = message_class(ApiKey.METADATA, "response")


def test_a_field_that_was_not_set_has_kafkas_default() -> None:
    message = METADATA()
    assert (message.throttle_time_ms, message.controller_id, message.cluster_id) == (0, -1, None)
    assert message.cluster_authorized_operations == -(2**31)
    assert METADATA.MetadataResponseTopic().is_internal is False


def test_the_default_of_an_array_cannot_be_changed() -> None:
    """A change of a list would be lost, or shared by all messages."""
    assert METADATA().topics == ()


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(AttributeError, match="no_such_field"):
        METADATA(no_such_field=1)
    with pytest.raises(AttributeError, match="no_such_field"):
        _ = METADATA().no_such_field


def test_messages_are_equal_if_their_fields_are() -> None:
    assert METADATA(controller_id=1, cluster_id=None) == METADATA(controller_id=1)
    assert METADATA(controller_id=1) != METADATA(controller_id=2)
    assert METADATA() != message_class(ApiKey.METADATA, "request")()


def test_a_message_shows_its_fields() -> None:
    assert repr(METADATA.MetadataResponseBroker(node_id=3, host="h")) == (
        "MetadataResponseBroker(node_id=3, host='h', port=0, rack=None)"
    )


@pytest.mark.parametrize("api_key", [999, ApiKey.VOTE])
def test_an_api_without_a_table_is_a_key_error(api_key: int) -> None:
    with pytest.raises(KeyError):
        message_class(api_key, "request")


def test_every_api_that_brokers_offer_has_its_tables() -> None:
    for api_key, (_, highest) in BROKER_VERSIONS.items():
        for kind in ("request", "response"):
            found = message_class(api_key, kind)
            assert found.api_key == api_key and found.valid_versions.last >= highest
