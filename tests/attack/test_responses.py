"""C: small requests with large responses, or with large traces in memory."""

import socket
import struct
from collections.abc import Callable

import pytest

from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.attack import payloads
from tests.attack.cluster import PROBED_TOPIC, Victim, wait_for
from tests.attack.connection import Connection
from tests.attack.siege import Siege

pytestmark = [pytest.mark.attack, pytest.mark.embedded]

MB = 1_000_000
GROUP = "attacked"


def _frame(api_key: ApiKey, version: int, message: codec.Message) -> bytes:
    return payloads.frame(api_key, version, bytes(codec.encode_body(message, api_key, version)))


def _answered(victim: Victim, api_key: ApiKey, version: int, message: codec.Message) -> codec.Message:
    """Send an honest request; returns the response as kafka-python's codec decodes it."""
    answer = victim.ask(_frame(api_key, version, message))
    return codec.decode_response(api_key, version, answer[4:])


def _join(metadata_bytes: int) -> codec.Message:
    join = codec.request(ApiKey.JOIN_GROUP)
    protocol = join.JoinGroupRequestProtocol(name="range", metadata=bytes(metadata_bytes))
    return join(
        group_id=GROUP, session_timeout_ms=30_000, rebalance_timeout_ms=1000, member_id="", group_instance_id="i",
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip


def _commit(group: str, partitions: int, metadata: str, topic: str = "probed") -> codec.Message:
    commit = codec.request(ApiKey.OFFSET_COMMIT)
    asked = commit.OffsetCommitRequestTopic
    partition = asked.OffsetCommitRequestPartition
    offsets = [
        partition(partition_index=number, committed_offset=1, committed_metadata=metadata)
        for number in range(partitions)
    ]
    return commit(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=[asked(name=topic, partitions=offsets)],
        retention_time_ms=-1,
    )  # fmt: skip


@pytest.fixture
def coordinated(siege: Siege) -> Siege:
    """A siege of a broker that has the offsets topic."""
    find = codec.request(ApiKey.FIND_COORDINATOR)(key=GROUP)

    def is_found() -> bool:
        return bool(_answered(siege.victim, ApiKey.FIND_COORDINATOR, 0, find).error_code == 0)

    wait_for(is_found, "the group has a coordinator", 30)
    return siege


def test_a_group_with_large_metadata_that_is_described_again_and_again(coordinated: Siege) -> None:
    victim = coordinated.victim
    member = codec.decode_response(ApiKey.JOIN_GROUP, 3, victim.ask(_frame(ApiKey.JOIN_GROUP, 3, _join(MB)))[4:])
    sync = codec.request(ApiKey.SYNC_GROUP)
    assigned = sync.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"")
    synced = sync(
        group_id=GROUP, generation_id=member.generation_id, member_id=member.member_id, assignments=[assigned]
    )
    victim.ask(_frame(ApiKey.SYNC_GROUP, 2, synced))
    describe = codec.request(ApiKey.DESCRIBE_GROUPS)
    request = _frame(ApiKey.DESCRIBE_GROUPS, 1, describe(groups=[GROUP] * 800))

    def attack() -> None:
        for _ in range(3):
            answer = victim.connect().ask(request)
            assert answer and len(answer) > MB, "there is no description of the group"

    coordinated("C DescribeGroups, 800 × 1 MB", attack)


def test_an_offset_commit_and_a_join_in_one_segment(coordinated: Siege) -> None:
    """A client that pipelines sends such segments; both requests must get a response."""
    victim = coordinated.victim
    segment = _frame(ApiKey.OFFSET_COMMIT, 2, _commit(GROUP, 2000, "")) + _frame(ApiKey.JOIN_GROUP, 3, _join(5000))

    def attack() -> None:
        connection = victim.connect()
        connection.send(segment)
        assert connection.answer(), "the broker closed the connection"
        assert connection.answer(), "the broker closed the connection"

    coordinated("C OffsetCommit and JoinGroup together", attack)


def test_offsets_of_one_group_that_are_fetched_again_and_again(coordinated: Siege) -> None:
    victim = coordinated.victim
    for number in range(200):
        victim.ask(_frame(ApiKey.OFFSET_COMMIT, 2, _commit(f"g{number}", 1, "m" * 4000)))
    fetch = codec.request(ApiKey.OFFSET_FETCH)
    groups = [fetch.OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(200)]
    request = _frame(ApiKey.OFFSET_FETCH, 8, fetch(groups=groups * 20, require_stable=False))
    coordinated("C OffsetFetch, 4,000 groups", lambda: victim.connect().ask(request))


def test_many_groups_with_large_metadata(coordinated: Siege) -> None:
    victim = coordinated.victim

    def attack() -> None:
        connection = victim.connect()
        for first in range(0, 50_000, 50):
            for number in range(first, first + 50):
                connection.send(_frame(ApiKey.OFFSET_COMMIT, 2, _commit(f"group-{number}", 1, "m" * 4000)))
            for _ in range(50):
                assert connection.answer(), "the broker closed the connection"
        connection.close()

    coordinated("C 50,000 groups × 4 KB", attack, deadline_s=180)


def test_thirty_thousand_topics_that_are_only_validated(siege: Siege) -> None:
    names = [f"topic-{number}" for number in range(30_000)]
    create = codec.request(ApiKey.CREATE_TOPICS)
    topic = create.CreatableTopic
    topics = [topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names]
    request = _frame(ApiKey.CREATE_TOPICS, 7, create(topics=topics, timeout_ms=0, validate_only=True))
    siege("C CreateTopics, 30,000 validated", lambda: siege.victim.connect().ask(request), deadline_s=90)


def test_producers_of_800000_partitions(siege: Siege) -> None:
    """One request has all of them and is refused. A request with the allowed number gets a response, even for an
    unknown topic.
    """
    describe = codec.request(ApiKey.DESCRIBE_PRODUCERS)

    def request(topic: str, count: int) -> bytes:
        asked = describe.TopicRequest(name=topic, partition_indexes=list(range(count)))
        return _frame(ApiKey.DESCRIBE_PRODUCERS, 0, describe(topics=[asked]))

    refused = request(PROBED_TOPIC, 800_000)
    answered = [request(PROBED_TOPIC, 40_000), request("missing", 40_000)] * 2

    def attack() -> None:
        siege.victim.connect().ask(refused)
        connection = siege.victim.connect()
        for each in answered:
            assert connection.ask(each), "the broker closed the connection"

    siege("C DescribeProducers, 800,000 ids", attack, deadline_s=90)


def test_40000_topics_that_do_not_exist_are_deleted(siege: Siege) -> None:
    delete = codec.request(ApiKey.DELETE_TOPICS)
    topics = [delete.DeleteTopicState(name=f"missing-{number}", topic_id=None) for number in range(40_000)]
    request = _frame(ApiKey.DELETE_TOPICS, 6, delete(topics=topics, timeout_ms=0))
    siege("C DeleteTopics of 40,000 names", lambda: siege.victim.connect().ask(request), deadline_s=60)


def test_long_keys_of_coordinators(coordinated: Siege) -> None:
    keys = [f"{number:0>32000}" for number in range(500)]
    find = codec.request(ApiKey.FIND_COORDINATOR)
    request = _frame(ApiKey.FIND_COORDINATOR, 4, find(key_type=0, coordinator_keys=keys))
    coordinated("C FindCoordinator, 500 × 32 KB", lambda: coordinated.victim.connect().ask(request))


def test_forms_and_scrapes_on_the_metrics_port(make_siege: Callable[..., Siege]) -> None:
    port = free_port()
    siege = make_siege(arguments=("--metrics-port", str(port)))
    head = b"POST /metrics HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n"

    def attack() -> None:
        with socket.create_connection((LOCALHOST, port), 10) as form:
            form.sendall(head % (60 * MB))
            assert form.recv(100).startswith(b"HTTP/1.1 405"), "the form was not refused"
        for _ in range(200):
            with socket.create_connection((LOCALHOST, port), 10) as scrape:
                scrape.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                assert scrape.recv(100).startswith(b"HTTP/1.1 200")

    siege("C a 60 MB form, 200 scrapes", attack)


def test_transactional_ids_that_are_never_used(siege: Siege) -> None:
    """The ids exceed what the broker remembers; an honest producer gets its id after a retry."""
    victim = siege.victim
    init, transactions = codec.request(ApiKey.INIT_PRODUCER_ID), 1
    find = codec.request(ApiKey.FIND_COORDINATOR)(key="t", key_type=transactions)

    def ask(connection: Connection, wanted: str) -> int:
        message = init(transactional_id=wanted, transaction_timeout_ms=1000)
        answer = connection.ask(_frame(ApiKey.INIT_PRODUCER_ID, 0, message))
        assert answer, "the broker closed the connection"
        (error,) = struct.unpack_from(">h", answer, 8)
        return int(error)

    def is_found() -> bool:
        return bool(_answered(victim, ApiKey.FIND_COORDINATOR, 1, find).error_code == 0)

    wait_for(is_found, "the id has a coordinator", 30)

    def attack() -> None:
        connection = victim.connect()
        refused = 0
        for number in range(6000):  # 32 KB each, which exceeds the bound
            refused += ask(connection, f"{number:0>32000}") != 0
        assert refused, "no id was refused: the flood is too small"
        wait_for(lambda: ask(connection, "honest") == 0, "an honest producer gets its id")
        connection.close()

    siege("C ids that are never used", attack, deadline_s=180)
