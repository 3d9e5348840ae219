"""Every integer of every znode is within the range of its field's type in Kafka, so that it can be sent to any peer.

A topic with one invalid partition is read without that partition.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.base.integers import INT8, INT16, INT32, INT64
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import (
    admin,
    brokers,
    config,
    consumers,
    controller,
    feature,
    group_assignment,
    group_topic,
    isr,
    producer_ids,
    topics,
)

Decode = Callable[[bytes], Any]


def _broker(data: bytes) -> Any:
    return brokers.decode(0, data)


def _state(data: bytes) -> Any:
    return topics.decode_state("t", 0, data)


def _at(decode: Callable[[str, bytes], Any]) -> Decode:
    return lambda data: decode("/p", data)


ID, EPOCH = range(2**31), range(2**31 - 1)
BROKER = '{"version":1,"host":"h","port":1,"jmx_port":1,"timestamp":"1"}'
STATE = '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":1,"isr":[1]}'
FEATURES = '{"version":5,"port":1,"endpoints":["A://h:1"],"listener_security_protocol_map":{"A":"SSL"},"features":%s}'
BLOCK = '{"version":1,"broker":1,"block_start":"1","block_end":"1"}'
MEMBER = '{"version":1,"subscription":{"t":%d},"pattern":"static","timestamp":"1"}'
GROUP = '{"version":1,"generation":%s,"strategy":"s","leader":"l","threads":[],"partitions":{},"static":{"m":"%s"}}'

INTEGERS: list[tuple[Decode, str, range]] = [
    (_at(group_topic.decode), '{"version":1,"czxid":"%d"}', INT64),
    (_broker, FEATURES.replace('"version":5', '"version":%d').replace("%s", "{}"), range(1, 2**31)),
    (_broker, BROKER.replace('"port":1', '"port":%d'), INT32),
    (_broker, BROKER.replace('"jmx_port":1', '"jmx_port":%d'), INT32),
    (_broker, BROKER.replace('"timestamp":"1"', '"timestamp":"%d"'), INT64),
    (_broker, '{"version":2,"port":1,"endpoints":["PLAINTEXT://h:%d"]}', INT32),
    (_broker, FEATURES.replace("%s", '{"f":{"min_version":%d,"max_version":1}}'), INT16),
    (_broker, FEATURES.replace("%s", '{"f":{"max_version":%d}}'), INT16),
    (_state, STATE.replace('"controller_epoch":1', '"controller_epoch":%d'), INT32),
    (_state, STATE.replace('"leader":1', '"leader":%d'), INT32),
    (_state, STATE.replace('"leader_epoch":1', '"leader_epoch":%d'), INT32),
    (_state, STATE.replace('"isr":[1]', '"isr":[1,%d]'), INT32),
    (_state, STATE.replace("}", ',"leader_recovery_state":%d}'), INT8),
    (controller.decode, '{"version":2,"brokerid":%d,"timestamp":"1"}', INT32),
    (controller.decode, "%d", INT32),
    (controller.decode, '{"version":2,"brokerid":1,"timestamp":"%d"}', INT64),
    (controller.decode, '{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":%d}', INT32),
    (controller.decode_epoch, "%d", EPOCH),
    (_at(admin.decode_partitions), '{"partitions":[{"topic":"t","partition":%d}]}', ID),
    (admin.decode_reassignment, '{"partitions":[{"topic":"t","partition":%d,"replicas":[1]}]}', ID),
    (admin.decode_reassignment, '{"partitions":[{"topic":"t","partition":1,"replicas":[%d]}]}', INT32),
    (_at(isr.decode_isr_change), '{"partitions":[{"topic":"t","partition":%d}]}', ID),
    (_at(isr.decode_log_dir_event), '{"version":1,"broker":%d,"event":1}', INT32),
    (_at(config.decode_change), '{"version":%d,"entity_path":"topics/t"}', range(2, 2**31)),
    (feature.decode, '{"version":2,"status":1,"features":{"f":{"max_version_level":%d}}}', INT16),
    (producer_ids.decode, BLOCK.replace('"broker":1', '"broker":%d'), INT32),
    (producer_ids.decode, BLOCK.replace('"block_start":"1"', '"block_start":"%d"'), range(2**63)),
    (producer_ids.decode, BLOCK.replace('"block_end":"1"', '"block_end":"%d"'), range(2**63)),
    (_at(consumers.decode_registration), MEMBER, consumers.STREAM_COUNTS),
    (_at(consumers.decode_registration), MEMBER.replace("%d", "1").replace('"1"}', '"%d"}'), INT64),
    (_at(consumers.decode_offset), "%d", INT64),
    (_at(group_assignment.decode), GROUP.replace("%s", "%d", 1).replace("%s", "1"), INT64),
    (_at(group_assignment.decode), GROUP.replace("%s", "1", 1).replace("%s", "%d"), INT64),
]


@pytest.mark.parametrize(("decode", "text", "within"), INTEGERS)
def test_every_integer_has_the_range_of_kafkas_field(decode: Decode, text: str, within: range) -> None:
    for fitting in (within[0], within[-1]):
        decode(text.replace("%d", str(fitting)).encode())
    for unfit in (within[0] - 1, within[-1] + 1, 10**19, -(10**19), 10**30):
        with pytest.raises(InvalidZnode):
            decode(text.replace("%d", str(unfit)).encode())


BAD_PARTITIONS = [
    ('"3000000000":[0]', "'3000000000'"),
    ('"2147483648":[0]', "'2147483648'"),
    ('"-1":[0]', "'-1'"),
    ('"a":[0]', "'a'"),
    ('"1":[3000000000]', "'1'"),
    ('"1":["x"]', "'1'"),
    ('"1":{}', "'1'"),
    ('"%s":[0]' % ("9" * 5000), "'9999"),
]


@pytest.mark.parametrize(("entry", "named"), BAD_PARTITIONS)
def test_a_partition_that_cannot_be_understood_drops_itself_only(entry: str, named: str) -> None:
    assignment = topics.decode_assignment("t", f'{{"version":1,"partitions":{{"0":[0,1],{entry}}}}}'.encode())
    assert assignment.partitions == {0: [0, 1]}
    (fault,) = assignment.faults
    assert fault.startswith("/brokers/topics/t: ") and named in fault


def test_a_replica_that_moves_to_or_from_nowhere_drops_itself_only() -> None:
    data = b'{"version":2,"partitions":{"0":[0]},"adding_replicas":{"0":[5000000000]},"removing_replicas":7}'
    assignment = topics.decode_assignment("t", data)
    assert (assignment.partitions, assignment.adding, assignment.removing) == ({0: [0]}, {}, {})
    assert len(assignment.faults) == 2


@pytest.mark.parametrize("topic_id", ['"short"', f'"{"A" * 22}"', f'"{"?" * 22}"', "7", '"Ж234567890123456789012"'])
def test_a_topic_id_that_is_none_counts_as_missing(topic_id: str) -> None:
    """An old tool drops the topic id, and the controller then writes the id that it knows, or a new one."""
    data = f'{{"version":3,"partitions":{{"0":[0]}},"topic_id":{topic_id}}}'
    assignment = topics.decode_assignment("t", data.encode())
    assert (assignment.partitions, assignment.topic_id) == ({0: [0]}, None)
    assert len(assignment.faults) == 1


@pytest.mark.parametrize("size", [32_767, 32_768])
def test_a_text_must_fit_into_kafkas_strings(size: int) -> None:
    """A longer rack could not be sent to clients."""
    data = f'{{"version":1,"host":"h","port":1,"jmx_port":1,"timestamp":"1","rack":"{"r" * size}"}}'.encode()
    if size < 2**15:
        assert brokers.decode(0, data).rack == "r" * size
    else:
        with pytest.raises(InvalidZnode):
            brokers.decode(0, data)
