"""A request that fails as a whole gets a response in every API and version."""

from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.error_response import error_response
from kafka_zk.protocol.errors import ErrorCode

CODE = ErrorCode.ILLEGAL_SASL_STATE


def answered(api_key: ApiKey, version: int, **fields: Any) -> Any:
    """The response, as the client decodes it."""
    response = error_response(api_key, version, codec.request(api_key)(**fields), CODE, "why")
    return codec.decode_response(api_key, version, codec.encode_body(response, api_key, version))


@pytest.mark.parametrize("api_key", BROKER_VERSIONS, ids=lambda key: key.name)
def test_each_version_can_be_encoded(api_key: ApiKey) -> None:
    lowest, highest = BROKER_VERSIONS[api_key]
    fields = {"acks": 1} if api_key == ApiKey.PRODUCE else {}
    for version in range(lowest, highest + 1):
        answered(api_key, version, **fields)


def test_a_code_at_the_top_is_enough() -> None:
    assert answered(ApiKey.LIST_GROUPS, 4).error_code == CODE
    found = answered(ApiKey.DESCRIBE_CLUSTER, 1)
    assert (found.error_code, found.error_message) == (CODE, "why")


def test_each_topic_of_metadata_has_the_code() -> None:
    topic = codec.request(ApiKey.METADATA).MetadataRequestTopic
    found = answered(ApiKey.METADATA, 9, topics=[topic(name="a"), topic(name="b")])
    assert [(each.name, each.error_code, list(each.partitions)) for each in found.topics] == [
        ("a", CODE, []), ("b", CODE, [])
    ]  # fmt: skip
    assert list(found.brokers) == []


def test_arrays_with_other_names_and_names_alone_are_found() -> None:
    topic = codec.request(ApiKey.PRODUCE).TopicProduceData
    partitions = [topic.PartitionProduceData(index=number) for number in (3, 5)]
    (found,) = answered(ApiKey.PRODUCE, 8, acks=1, topic_data=[topic(name="a", partition_data=partitions)]).responses
    assert [(each.index, each.error_code) for each in found.partition_responses] == [(3, CODE), (5, CODE)]
    (group,) = answered(ApiKey.DESCRIBE_GROUPS, 5, groups=["g"]).groups
    assert (group.group_id, group.error_code) == ("g", CODE)


def test_a_producer_that_waits_for_no_response_gets_none() -> None:
    assert error_response(ApiKey.PRODUCE, 8, codec.request(ApiKey.PRODUCE)(acks=0), CODE, "why") is None


def test_a_partition_of_a_transaction_has_the_code_in_a_field_of_its_own() -> None:
    """AddPartitionsToTxn calls it ``partition_error_code``."""
    topic = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN).AddPartitionsToTxnTopic
    found = answered(ApiKey.ADD_PARTITIONS_TO_TXN, 3, v3_and_below_topics=[topic(name="a", partitions=[4])])
    [partition] = found.results_by_topic_v3_and_below[0].results_by_partition
    assert (partition.partition_index, partition.partition_error_code) == (4, CODE)
