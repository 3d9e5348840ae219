"""For every API whose responses can be long, a response's memory is counted before the response is built, and the count
is at least Python's own. A repeated name gets no second result.
"""

import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import succeed

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestHeader, response_body_position
from kafka_zk.storage.log.producer_snapshot import ProducerEntry
from tests.kafka_zk.broker.conftest import CONTEXT, Harness

pytestmark = pytest.mark.slow

COUNT = 2000
REPEATED = 50
UNCOUNTED_BYTES = 256 * 1024
"""Memory is counted in steps of 64 KB, and decoding a request of up to 16 KB is not counted."""

Ask = Callable[[Harness], tuple[ApiKey, int, Any]]


class Account:
    """Memory without a limit. ``peak_bytes``: the highest count."""

    def __init__(self) -> None:
        self.used_bytes = self.peak_bytes = 0

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.used_bytes)

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        self.take(size_bytes)
        return True

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0

    def release(self) -> None:
        self.used_bytes = 0

    def reserve(self, size_bytes: int) -> Awaitable[None]:
        self.take(size_bytes)
        return succeed(None)


def answer(broker: Harness, api_key: ApiKey, version: int, request: Any, account: Account) -> bytes:
    body = memoryview(bytearray(codec.encode_body(request, api_key, version)))
    account.take(len(body))  # the connection does the same
    context = CONTEXT._replace(memory=account)
    answers: list[Any] = []
    handling = Dispatcher(broker.services).dispatch(context, RequestHeader(api_key, version, 7, "client"), body)

    async def handle() -> None:
        answers.extend(await handling or [])

    coroutine = handle()
    try:
        while True:  # all turns follow each other: the coroutine only awaits the clock's next turn
            coroutine.send(None)
            broker.clock.advance(1)
    except StopIteration:
        pass
    return b"".join(answers)


def of_groups(broker: Harness) -> None:
    manager = broker.services.coordinator._manager
    for number in range(20):
        committed = {
            TopicPartition("t", partition): OffsetAndMetadata(partition, -1, "m" * 100, 0) for partition in range(100)
        }
        manager.get_or_create(f"g{number}").group.offsets.load(committed)


def describe_groups(broker: Harness) -> tuple[ApiKey, int, Any]:
    join = codec.request(ApiKey.JOIN_GROUP)
    for number in range(5):
        protocol = join.JoinGroupRequestProtocol(name="range", metadata=bytes(50_000))
        broker.start(ApiKey.JOIN_GROUP, 3, join(
            group_id="g", session_timeout_ms=30_000, rebalance_timeout_ms=1000, member_id="",
            group_instance_id=f"i{number}", protocol_type="consumer", protocols=[protocol],
        ))  # fmt: skip
    broker.clock.advance(10)
    members = broker.services.coordinator._manager.groups["g"].group.members
    sync = codec.request(ApiKey.SYNC_GROUP)
    for member in list(members):
        broker.start(ApiKey.SYNC_GROUP, 3, sync(
            group_id="g", generation_id=1, member_id=member.member_id, group_instance_id=None,
            assignments=[],
        ))  # fmt: skip
    request = codec.request(ApiKey.DESCRIBE_GROUPS)
    return ApiKey.DESCRIBE_GROUPS, 5, request(groups=["g"] * REPEATED, include_authorized_operations=False)


def offset_fetch(version: int) -> Ask:
    def ask(broker: Harness) -> tuple[ApiKey, int, Any]:
        of_groups(broker)
        request = codec.request(ApiKey.OFFSET_FETCH)
        if version < 8:
            return ApiKey.OFFSET_FETCH, version, request(group_id="g1", topics=None)
        groups = [request.OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(20)]
        return ApiKey.OFFSET_FETCH, version, request(groups=groups * REPEATED, require_stable=False)

    return ask


def offset_fetch_of_unknown(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.OFFSET_FETCH)
    topic = request.OffsetFetchRequestTopic(name="t", partition_indexes=list(range(COUNT)))
    return ApiKey.OFFSET_FETCH, 5, request(group_id="g", topics=[topic])


def list_groups(broker: Harness) -> tuple[ApiKey, int, Any]:
    committed = {TopicPartition("t", 0): OffsetAndMetadata(1, -1, "", 0)}
    for number in range(COUNT):
        broker.services.coordinator._manager.get_or_create(f"{number:0>200}").group.offsets.load(committed)
    return ApiKey.LIST_GROUPS, 4, codec.request(ApiKey.LIST_GROUPS)(states_filter=[])


def find_coordinator(broker: Harness) -> tuple[ApiKey, int, Any]:
    keys = [str(number) for number in range(COUNT)]
    request = codec.request(ApiKey.FIND_COORDINATOR)
    return ApiKey.FIND_COORDINATOR, 4, request(key_type=0, coordinator_keys=keys)


def create_topics(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.CREATE_TOPICS)
    topics = [
        request.CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for number in range(COUNT // 10)
    ]
    return ApiKey.CREATE_TOPICS, 7, request(topics=topics, timeout_ms=0, validate_only=True)


def describe_configs(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.DESCRIBE_CONFIGS)
    resource = request.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    return ApiKey.DESCRIBE_CONFIGS, 4, request(
        resources=[resource] * COUNT, include_synonyms=True, include_documentation=True
    )


def describe_producers(broker: Harness) -> tuple[ApiKey, int, Any]:
    partition = broker.services.replicas.partitions[TopicPartition("t", 0)]
    assert partition.log is not None
    partition.log.producers.producers = {number: ProducerEntry(number, 0) for number in range(COUNT)}
    request = codec.request(ApiKey.DESCRIBE_PRODUCERS)
    topic = request.TopicRequest(name="t", partition_indexes=[0] * REPEATED)
    return ApiKey.DESCRIBE_PRODUCERS, 0, request(topics=[topic] * REPEATED)


def of_transactions(broker: Harness) -> list[str]:
    manager = broker.services.transactions._manager
    owned = manager.partitions[0]
    tps = frozenset(TopicPartition("t", number) for number in range(20))
    for number in range(COUNT):
        metadata = TransactionMetadata(number, 0, 1000, TransactionState.ONGOING, tps)
        manager.add(owned, Transaction(f"{number:0>100}", metadata))
    return list(owned.transactions)


def list_transactions(broker: Harness) -> tuple[ApiKey, int, Any]:
    of_transactions(broker)
    request = codec.request(ApiKey.LIST_TRANSACTIONS)
    return ApiKey.LIST_TRANSACTIONS, 0, request(state_filters=[], producer_id_filters=[])


def describe_transactions(broker: Harness) -> tuple[ApiKey, int, Any]:
    ids = of_transactions(broker)[:100]
    request = codec.request(ApiKey.DESCRIBE_TRANSACTIONS)
    return ApiKey.DESCRIBE_TRANSACTIONS, 0, request(transactional_ids=ids * 10)


def list_offsets(version: int) -> Ask:
    def ask(broker: Harness) -> tuple[ApiKey, int, Any]:
        request = codec.request(ApiKey.LIST_OFFSETS)
        topic = request.ListOffsetsTopic
        partitions = [
            topic.ListOffsetsPartition(partition_index=number, timestamp=-1, max_num_offsets=1, current_leader_epoch=-1)
            for number in range(COUNT)
        ]
        topics = [topic(name="t", partitions=partitions)]
        return ApiKey.LIST_OFFSETS, version, request(replica_id=-1, isolation_level=0, topics=topics)

    return ask


def delete_records(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.DELETE_RECORDS)
    topic = request.DeleteRecordsTopic
    partitions = [topic.DeleteRecordsPartition(partition_index=number, offset=0) for number in range(COUNT)]
    return ApiKey.DELETE_RECORDS, 2, request(topics=[topic(name="t", partitions=partitions)], timeout_ms=0)


def alter_log_dirs(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.ALTER_REPLICA_LOG_DIRS)
    topic = request.AlterReplicaLogDir.AlterReplicaLogDirTopic(name="t", partitions=list(range(COUNT)))
    return ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request(dirs=[request.AlterReplicaLogDir(path="/x", topics=[topic])])


def write_markers(broker: Harness) -> tuple[ApiKey, int, Any]:
    request = codec.request(ApiKey.WRITE_TXN_MARKERS)
    marker = request.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic(name="u", partition_indexes=list(range(COUNT)))
    markers = [
        marker(producer_id=1, producer_epoch=0, transaction_result=True, coordinator_epoch=0, topics=[topic])
    ]
    return ApiKey.WRITE_TXN_MARKERS, 1, request(markers=markers)


@pytest.fixture
def broker(harness: Callable[..., Harness]) -> Harness:
    made = harness()
    made.lead("t")
    made.lead("__consumer_offsets")
    made.lead("__transaction_state")
    return made


@pytest.mark.parametrize(
    "ask",
    [
        describe_groups, offset_fetch(5), offset_fetch(8), offset_fetch_of_unknown, list_groups, find_coordinator,
        create_topics, describe_configs, describe_producers, list_transactions, describe_transactions,
        list_offsets(0), list_offsets(7), delete_records, alter_log_dirs, write_markers,
    ],
)  # fmt: skip
def test_what_a_response_takes_is_counted(broker: Harness, ask: Ask) -> None:
    api_key, version, request = ask(broker)
    answer(broker, api_key, version, request, Account())  # cached data do not count
    account = Account()
    tracemalloc.start()
    try:
        before_bytes, _ = tracemalloc.get_traced_memory()
        encoded = answer(broker, api_key, version, request, account)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    taken_bytes = peak_bytes - before_bytes - len(encoded)  # this test joined the encoded response
    assert taken_bytes <= account.peak_bytes + UNCOUNTED_BYTES
    frame = memoryview(encoded)
    codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])
