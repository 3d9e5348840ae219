"""Every znode's JSON: each historic version as written by real processes, round trips, and InvalidZnode for garbage."""

import base64
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import InvalidZnode, RequestTooLarge
from kafka_zk.registry.znodes import (
    admin,
    brokers,
    cluster_id,
    config,
    consumers,
    controller,
    feature,
    group_assignment,
    isr,
    producer_ids,
    topics,
)
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.config import ConfigChange
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.controller import ControllerClaim
from kafka_zk.registry.znodes.feature import FinalizedFeatures
from kafka_zk.registry.znodes.group_assignment import GroupAssignment
from kafka_zk.registry.znodes.producer_ids import ProducerIdBlock
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, TopicAssignment

PLAIN = EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 23090)

BROKERS = [
    (
        b'{"jmx_port":-1,"timestamp":"1795231882499","host":"127.0.0.1","version":1,"port":23090}',
        BrokerInfo(0, "127.0.0.1", 23090, (PLAIN,), timestamp_ms=1795231882499, version=1),
    ),
    (
        b'{"jmx_port":9999,"timestamp":"1","endpoints":["PLAINTEXT://127.0.0.1:23090"],"host":"127.0.0.1",'
        b'"version":2,"port":23090}',
        BrokerInfo(0, "127.0.0.1", 23090, (PLAIN,), jmx_port=9999, timestamp_ms=1, version=2),
    ),
    (
        b'{"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://127.0.0.1:23090","SSL://[::1]:9093"],"rack":"r",'
        b'"host":"127.0.0.1","version":3,"port":23090}',
        BrokerInfo(
            0, "127.0.0.1", 23090, (PLAIN, EndPoint("SSL", "SSL", "::1", 9093)), rack="r", timestamp_ms=1, version=3
        ),
    ),
    (
        b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:23090"],'
        b'"jmx_port":-1,"host":"127.0.0.1","timestamp":"1795232015343","port":23090,"version":4}',
        BrokerInfo(0, "127.0.0.1", 23090, (PLAIN,), timestamp_ms=1795232015343, version=4),
    ),
    (
        b'{"features":{"f":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"IN":"SASL_PLAINTEXT"},'
        b'"endpoints":["IN://h:23190"],"rack":"rack0","jmx_port":-1,"port":-1,"host":null,"version":5,'
        b'"timestamp":"1795231685313"}',
        BrokerInfo(
            0,
            None,
            -1,
            (EndPoint("IN", "SASL_PLAINTEXT", "h", 23190),),
            rack="rack0",
            timestamp_ms=1795231685313,
            features={"f": (1, 3)},
        ),
    ),
]


@pytest.mark.parametrize(("data", "info"), BROKERS)
def test_broker_registrations_of_every_version(data: bytes, info: BrokerInfo) -> None:
    """Registrations written by 0.8 to 3.9 are read, and written again with the same keys and values."""
    assert brokers.decode(0, data) == info
    assert json.loads(brokers.encode(info)) == json.loads(data)


def test_todays_registration_takes_host_and_port_from_the_plaintext_endpoint() -> None:
    """Old readers know only ``host`` and ``port``; without a plaintext listener, Kafka writes null and -1."""
    ssl = EndPoint("SSL", "SSL", "h", 1)
    info = BrokerInfo.of(1, (ssl, PLAIN), rack="r", timestamp_ms=5)
    assert (info.host, info.port, info.version, info.endpoint("SSL")) == ("127.0.0.1", 23090, 5, ssl)
    assert BrokerInfo.of(1, (ssl,)).host is None
    assert info.endpoint("OTHER") is None


ASSIGNMENTS = [
    (b'{"version":1,"partitions":{"1":[0],"0":[0,2]}}', TopicAssignment({0: [0, 2], 1: [0]})),
    (
        b'{"version":2,"partitions":{"0":[0,1,2]},"adding_replicas":{"0":[0]},"removing_replicas":{"0":[2]}}',
        TopicAssignment({0: [0, 1, 2]}, None, {0: [0]}, {0: [2]}),
    ),
    (
        b'{"partitions":{"0":[2,0],"10":[0,1],"9":[1,2]},"topic_id":"YTI9vJfzQOepxQr8vcaMoQ","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}',
        TopicAssignment({0: [2, 0], 9: [1, 2], 10: [0, 1]}, "YTI9vJfzQOepxQr8vcaMoQ"),
    ),
]


@pytest.mark.parametrize(("data", "assignment"), ASSIGNMENTS)
def test_assignments_of_every_version(data: bytes, assignment: TopicAssignment) -> None:
    assert topics.decode_assignment("t", data) == assignment
    assert list(topics.decode_assignment("t", data).partitions) == sorted(assignment.partitions)


def test_an_assignment_is_written_as_version_3_as_kafka_does() -> None:
    assert json.loads(topics.encode_assignment(ASSIGNMENTS[2][1])) == json.loads(ASSIGNMENTS[2][0])
    assert "topic_id" not in json.loads(topics.encode_assignment(TopicAssignment({0: [1]})))


def test_partition_state() -> None:
    """The keys are the same in 0.8.2 and 3.9. The recovery state is present only during recovery."""
    data = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,0]}'
    state = LeaderIsrAndControllerEpoch(2, [2, 0], 0, 1, zk_version=7)
    assert topics.decode_state("t", 0, data, 7) == state
    assert json.loads(topics.encode_state(state)) == json.loads(data)
    recovering = LeaderIsrAndControllerEpoch(2, [2], 1, 1, leader_recovery_state=1)
    assert topics.decode_state("t", 0, topics.encode_state(recovering)) == recovering


@pytest.mark.parametrize(
    ("data", "claim"),
    [
        (
            b'{"version":2,"brokerid":0,"timestamp":"1795231153591","kraftControllerEpoch":-1}',
            ControllerClaim(0, 1795231153591),
        ),
        (b'{"version":1,"brokerid":3,"timestamp":"1795231882397"}', ControllerClaim(3, 1795231882397)),
        (b"7", ControllerClaim(7)),
        (b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}', ControllerClaim(3000, 1, 5)),
    ],
)
def test_controller_of_every_version(data: bytes, claim: ControllerClaim) -> None:
    assert controller.decode(data) == claim


def test_controller_is_written_as_version_2() -> None:
    data = b'{"version":2,"brokerid":0,"timestamp":"1795231153591","kraftControllerEpoch":-1}'
    assert controller.encode(ControllerClaim(0, 1795231153591)) == data
    assert controller.decode_epoch(controller.encode_epoch(12)) == 12


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (b'{"version":2,"entity_path":"topics/t1"}', ConfigChange("topics", "t1")),
        (
            b'{"version":2,"entity_path":"users/Bob%20%2A%40x/clients/c%2F1"}',
            ConfigChange("users", "Bob%20%2A%40x/clients/c%2F1"),
        ),
        (b'{"version":2,"entity_path":"brokers/<default>"}', ConfigChange("brokers", "<default>")),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', ConfigChange("topics", "t")),
        (b'"x"', ConfigChange("topics", "x")),
    ],
)
def test_config_changes_of_every_version(data: bytes, change: ConfigChange) -> None:
    assert config.decode_change("/p", data) == change
    assert config.decode_change("/p", config.encode_change(change)) == change


def test_entity_configs() -> None:
    data = b'{"version":1,"config":{"retention.ms":"86400000"}}'
    assert config.encode({"retention.ms": "86400000"}) == data
    assert config.decode("/p", data) == ({"retention.ms": "86400000"}, ())
    assert config.decode("/p", None) == config.decode("/p", b"") == ({}, ())


@pytest.mark.parametrize(
    ("data", "values", "fault_count"),
    [
        (b"?", {}, 1),
        (b"[]", {}, 1),
        (b"{}", {}, 1),
        (b'{"version":1,"config":[]}', {}, 1),
        (b'{"version":7,"config":{"a":"1"}}', {"a": "1"}, 0),
        (b'{"config":{"a":"1"},"more":{}}', {"a": "1"}, 0),
        (b'{"version":1,"config":{"a":"1","b":2,"c":null}}', {"a": "1"}, 2),
    ],
)
def test_a_config_is_read_as_kafka_reads_it(data: bytes, values: dict[str, str], fault_count: int) -> None:
    """Invalid JSON, or JSON without a config, is an empty config; the version is ignored. Kafka fails on values that
    are not strings."""
    read = config.decode("/config/topics/t", data)
    assert (read.values, len(read.faults)) == (values, fault_count)
    assert all(fault.startswith("/config/topics/t: ") for fault in read.faults)


@pytest.mark.parametrize("name", ["", "..", "a/../b", ".", "a//b", "\0", "x" * 40_000])
def test_a_change_of_what_can_have_no_znode_is_invalid(name: str) -> None:
    """A notified broker reads that znode, so its path must not break the client or the connection."""
    for document in ({"version": 2, "entity_path": f"topics/{name}"}, name):
        with pytest.raises(InvalidZnode):
            config.decode_change("/p", json.dumps(document).encode())


def test_names_are_sanitized_as_kafka_does() -> None:
    assert config.sanitize("Bob *@x") == "Bob%20%2A%40x"
    assert config.sanitize("a.b-c_d~/é") == "a.b-c_d%7E%2F%C3%A9"


@given(st.text())
def test_sanitizing_can_be_undone(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    assert config.desanitize(config.sanitize(name)) == name
    assert "/" not in config.sanitize(name)


def test_cluster_id_has_a_version_that_is_a_string() -> None:
    data = b'{"version":"1","id":"2GFxDLooQ2i-dgl3mxZxWw"}'
    assert cluster_id.encode("2GFxDLooQ2i-dgl3mxZxWw") == data
    assert cluster_id.decode(data) == "2GFxDLooQ2i-dgl3mxZxWw"


def test_producer_id_block_has_bounds_that_are_strings() -> None:
    data = b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert producer_ids.encode(ProducerIdBlock(0, 0, 999)) == data
    assert producer_ids.decode(data) == ProducerIdBlock(0, 0, 999)
    assert producer_ids.decode(b"") is None


def test_orders_to_the_controller() -> None:
    moves = {TopicPartition("t2", 0): [0, 1]}
    data = b'{"version":1,"partitions":[{"topic":"t2","partition":0,"replicas":[0,1]}]}'
    assert admin.encode_reassignment(moves) == data
    assert admin.decode_reassignment(data) == moves
    partitions = {TopicPartition("t1", 1), TopicPartition("t1", 0)}
    assert admin.decode_partitions("/p", admin.encode_partitions(partitions)) == partitions
    assert isr.decode_isr_change("/p", isr.encode_isr_change(partitions)) == partitions
    assert isr.encode_log_dir_event(1001) == b'{"version":1,"broker":1001,"event":1}'
    assert isr.decode_log_dir_event("/p", b'{"version":1,"broker":1001,"event":1}') == 1001


@pytest.mark.parametrize(
    ("data", "finalized"),
    [
        (b'{"features":{},"version":2,"status":1}', FinalizedFeatures()),
        (b'{"features":{"f":{"max_version_level":2}},"version":2,"status":1}', FinalizedFeatures({"f": 2})),
        (b'{"features":{},"version":1,"status":0}', FinalizedFeatures({}, 0, 1)),
        (
            b'{"features":{"f":{"min_version_level":1,"max_version_level":2}},"version":1,"status":1}',
            FinalizedFeatures({"f": 2}, 1, 1),
        ),
    ],
)
def test_features_of_every_version(data: bytes, finalized: FinalizedFeatures) -> None:
    assert feature.decode(data) == finalized
    assert json.loads(feature.encode(finalized)) == json.loads(data)


def test_consumer_registrations_as_the_old_consumer_writes_them() -> None:
    data = b'{"version":1,"subscription":{"t1":2},"pattern":"static","timestamp":"1795231299295"}'
    registration = ConsumerRegistration({"t1": 2}, "static", 1795231299295)
    assert consumers.encode_registration(registration) == data
    assert consumers.decode_registration("/p", data) == registration
    assert not registration.is_wildcard
    assert ConsumerRegistration({"t1|t2": 1}, "white_list").is_wildcard
    with pytest.raises(InvalidZnode, match="'pattern'"):
        consumers.decode_registration("/p", b'{"version":1,"subscription":{}}')
    assert consumers.decode_offset("/p", b"99") == 99
    assert consumers.decode_owner("/p", b"g_h-1-0") == "g_h-1-0"
    assert consumers.consumer_of(consumers.thread_id("g_h-1", 10)) == "g_h-1"
    assert consumers.consumer_of("someone") == "someone"


@pytest.mark.parametrize("name", ["g", "a.b", "...", "A_-1.0"])
def test_group_ids_that_kafkas_consumers_take(name: str) -> None:
    assert consumers.group_id_fault(name) is None and consumers.is_znode_name(name)


@pytest.mark.parametrize("name", ["a b", "größe", "a:b", "a\\b", "a\u00a0"])
def test_group_ids_that_they_refuse_although_there_can_be_such_znodes(name: str) -> None:
    assert repr(name) in str(consumers.group_id_fault(name)) and consumers.is_znode_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0", "a\n", "\x7f", "\ue000", "\uffff", "\U0001f600"])
def test_names_that_no_znode_can_have(name: str) -> None:
    assert repr(name) in str(consumers.group_id_fault(name)) and not consumers.is_znode_name(name)


def test_our_members_announce_what_they_can_in_a_key_that_old_consumers_ignore() -> None:
    registration = ConsumerRegistration({"t1": 2}, "static", 7, ("cooperative-sticky", "range"), "i1", 45_000, 2)
    data = consumers.encode_registration(registration)
    assert json.loads(data)["kafka-zk"] == {
        "strategies": ["cooperative-sticky", "range"],
        "instance": "i1",
        "instance_timeout_ms": "45000",
        "capacity": 2,
    }
    assert consumers.decode_registration("/p", data) == registration


@pytest.mark.parametrize("announcement", [b"7", b'{"strategies":"range"}', b'{"instance":1}', b'{"strategies":[1]}'])
def test_a_malformed_announcement_counts_as_none(announcement: bytes) -> None:
    """The subscription is still valid, because old members use it to share the partitions."""
    data = b'{"version":1,"subscription":{"t1":2},"pattern":"static","kafka-zk":' + announcement + b"}"
    assert consumers.decode_registration("/p", data) == ConsumerRegistration({"t1": 2})


@pytest.mark.parametrize("capacity", ["0", "-1", "1001", "1e3", "1.5", "true", "null", '"many"', "[1]", "9" * 400])
def test_a_malformed_capacity_leaves_the_strategies(capacity: str) -> None:
    """A member of a version without capacities ignores the key, and must choose the same strategy."""
    data = b'{"version":1,"subscription":{"t1":2},"pattern":"static","kafka-zk":{"strategies":["sticky"],"capacity":%s'
    registration = consumers.decode_registration("/p", data % capacity.encode() + b"}}")
    assert registration == ConsumerRegistration({"t1": 2}, strategies=("sticky",))


def test_a_group_assignment_numbers_its_threads() -> None:
    data = (
        b'{"version":1,"generation":7,"strategy":"sticky","leader":"a","threads":["a-0","b-0"],'
        b'"partitions":{"t1":[0,-1,1],"t2":[1]},"static":{"c":"45000"}}'
    )
    assigned = {("t1", 0): "a-0", ("t1", 2): "b-0", ("t2", 0): "b-0"}
    assignment = {TopicPartition(*tp): thread_id for tp, thread_id in assigned.items()}
    expected = GroupAssignment(7, "sticky", "a", assignment, {"c": 45_000})
    assert group_assignment.encode(expected) == data
    assert group_assignment.decode("/p", data) == expected
    for right, wrong in (
        (b'"t2":[1]', b'"t2":[2]'),
        (b'"t2":[1]', b'"t2":[-2]'),
        (b'"t2":[1]', b'"t2":[true]'),
        (b'"t2":[1]', b'"t2":3'),
        (b'"b-0"]', b'"b"]'),
        (b'"b-0"]', b'"b-x"]'),
        (b'"b-0"]', b'"b-1000000000"]'),
    ):
        with pytest.raises(InvalidZnode):
            group_assignment.decode("/p", data.replace(right, wrong))


def test_a_group_assignment_that_no_znode_holds_is_refused_in_one_sentence() -> None:
    partitions = {TopicPartition("t", number): f"thread-{number}" for number in range(60_000)}
    with pytest.raises(RequestTooLarge, match=r"60000 partitions to 60000 threads takes .* one znode holds"):
        group_assignment.encode(GroupAssignment(1, "sticky", "a", partitions))


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=8)
THREADS = st.builds(consumers.thread_id, NAMES, st.integers(0, consumers.MOST_STREAMS - 1))
TOPIC_IDS = st.binary(min_size=16, max_size=16).filter(any).map(lambda raw: base64.urlsafe_b64encode(raw).decode()[:22])
REPLICAS = st.dictionaries(st.integers(0, 500), st.lists(st.integers(0, 2**31 - 1), max_size=4), max_size=5)


@given(st.builds(TopicAssignment, REPLICAS, st.none() | TOPIC_IDS, REPLICAS, REPLICAS))
def test_any_assignment_makes_the_round_trip(assignment: TopicAssignment) -> None:
    assert topics.decode_assignment("t", topics.encode_assignment(assignment)) == assignment


@given(
    st.lists(
        st.builds(
            EndPoint,
            st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
            st.sampled_from(["PLAINTEXT", "SSL", "SASL_SSL"]),
            st.sampled_from(["h", "10.1.2.3", "::1", "a-b.example"]),
            st.integers(0, 65535),
        ),
        max_size=3,
        unique_by=lambda endpoint: endpoint.name,
    ),
    st.none() | NAMES,
    st.integers(0, 2**62),
)
def test_any_registration_makes_the_round_trip(endpoints: list[EndPoint], rack: str | None, timestamp: int) -> None:
    info = BrokerInfo.of(3, tuple(endpoints), rack=rack, timestamp_ms=timestamp)
    assert brokers.decode(3, brokers.encode(info)) == info


@given(st.builds(ProducerIdBlock, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)))
def test_no_number_beyond_32_bits_is_written_bare(block: ProducerIdBlock) -> None:
    """Clients up to 0.10 reject a document with a larger number."""
    document = json.loads(producer_ids.encode(block))
    assert all(not isinstance(value, int) or value < 2**31 for value in document.values())
    assert producer_ids.decode(producer_ids.encode(block)) == block


@given(
    st.builds(
        GroupAssignment,
        st.integers(0, 2**31 - 1),
        NAMES,
        NAMES,
        st.dictionaries(st.builds(TopicPartition, NAMES, st.integers(0, 9)), THREADS, max_size=6),
        st.dictionaries(NAMES, st.integers(0, 2**40), max_size=3),
        st.dictionaries(NAMES, st.integers(1, 1000), max_size=3),
    )
)
def test_any_group_assignment_makes_the_round_trip(assignment: GroupAssignment) -> None:
    assert group_assignment.decode("/p", group_assignment.encode(assignment)) == assignment


DECODERS: list[Callable[[bytes], object]] = [
    lambda data: brokers.decode(1, data),
    lambda data: topics.decode_assignment("t", data),
    lambda data: topics.decode_state("t", 0, data),
    controller.decode,
    controller.decode_epoch,
    lambda data: config.decode("/p", data),
    lambda data: config.decode_change("/p", data),
    cluster_id.decode,
    producer_ids.decode,
    admin.decode_reassignment,
    lambda data: admin.decode_partitions("/p", data),
    lambda data: isr.decode_log_dir_event("/p", data),
    feature.decode,
    lambda data: consumers.decode_registration("/p", data),
    lambda data: consumers.decode_offset("/p", data),
    lambda data: consumers.decode_owner("/p", data),
    lambda data: group_assignment.decode("/p", data),
]
WORDS = (
    "version host port endpoints features partitions topic partition replicas isr leader leader_epoch controller_epoch "
    "brokerid timestamp config entity_path entity_type entity_name id broker block_start block_end status subscription "
    "pattern listener_security_protocol_map topic_id adding_replicas event f 0 -1 "
    "threads static generation strategy leader strategies instance kafka-zk"
)
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("decode", DECODERS)
@given(data=st.binary(max_size=40) | JSON.map(lambda document: json.dumps(document).encode()))
def test_garbage_is_understood_or_invalid(decode: Callable[[bytes], object], data: bytes) -> None:
    try:
        decode(data)
    except InvalidZnode:
        return


@pytest.mark.parametrize("data", [b"[" * 100_000, b'"\\ud800"', b'{"version":true,"brokerid":1}', b"1_0", b"\xff"])
def test_known_traps_are_invalid(data: bytes) -> None:
    """The traps are deep nesting, half a surrogate pair, a bool for a number, Python's own number syntax, and invalid
    UTF-8.
    """
    for decode in (lambda d: config.decode_change("/p", d), controller.decode_epoch):
        with pytest.raises(InvalidZnode):
            decode(data)
