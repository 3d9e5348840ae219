"""Counts the opcodes that the hand-written readers and writers of requests save: ``python -m tests.bench.codec_cost``.

These are the opcodes to read a request and to write its response, without handling it: by hand, and with the field
tables. Decision 0004 names the APIs and gives the reason for the hand-written code. Its caches are full when the
opcodes are counted.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec, group_membership, offset_commit, transactions
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.bench.request_cost import opcodes

NONE = ErrorCode.NONE
PARTITIONS = 10
TPS = tuple(TopicPartition("orders", partition) for partition in range(PARTITIONS))


class Sample(NamedTuple):
    """One API: its request, and both ways to read it and to write a response with the same content."""

    name: str
    api_key: ApiKey
    version: int
    request: Any
    read: Callable[[int, memoryview], Any]
    write: Callable[[], Any]
    response: Callable[[], Any]

    def costs(self) -> tuple[int, int]:
        """Opcodes of the hand-written code and of the tables."""
        body = memoryview(bytes(codec.encode_body(self.request, self.api_key, self.version)))

        def by_hand() -> None:
            self.read(self.version, body)
            self.write()

        def by_tables() -> None:
            codec.decode_request(self.api_key, self.version, body)
            codec.encode_response(self.api_key, self.version, 7, self.response())

        assert bytes(self.write()) == codec.encode_response(self.api_key, self.version, 7, self.response())
        by_hand()  # this line and the next one fill the caches
        by_tables()
        return opcodes(by_hand), opcodes(by_tables)


def samples() -> Iterator[Sample]:
    """The APIs of decision 0004 except Produce and Fetch, whose records have no table."""
    join, joined = codec.request(ApiKey.JOIN_GROUP), codec.response(ApiKey.JOIN_GROUP)
    yield Sample(
        "JoinGroup", ApiKey.JOIN_GROUP, 9,
        join(
            group_id="group", session_timeout_ms=1, rebalance_timeout_ms=1, member_id="member", group_instance_id=None,
            protocol_type="consumer", reason=None,
            protocols=[join.JoinGroupRequestProtocol(name=name, metadata=bytes(50)) for name in ("range", "sticky")],
        ),
        group_membership.read_join_group_request,
        lambda: run_to_end(
            group_membership.write_join_group_response(
                9, 7, NONE, 1, ("consumer", "range"), "member", "member", [("member", None, bytes(50))] * PARTITIONS,
                skip_assignment=False,
            )
        ),
        lambda: joined(
            throttle_time_ms=0, error_code=0, generation_id=1, protocol_type="consumer", protocol_name="range",
            leader="member", skip_assignment=False, member_id="member",
            members=[
                joined.JoinGroupResponseMember(member_id="member", group_instance_id=None, metadata=bytes(50))
                for _ in range(PARTITIONS)
            ],
        ),
    )  # fmt: skip
    sync, synced = codec.request(ApiKey.SYNC_GROUP), codec.response(ApiKey.SYNC_GROUP)
    yield Sample(
        "SyncGroup", ApiKey.SYNC_GROUP, 5,
        sync(
            group_id="group", generation_id=1, member_id="member", group_instance_id=None, protocol_type="consumer",
            protocol_name="range",
            assignments=[
                sync.SyncGroupRequestAssignment(member_id=f"member-{number}", assignment=bytes(50))
                for number in range(PARTITIONS)
            ],
        ),
        lambda version, body: run_to_end(group_membership.read_sync_group_request(version, body)),
        lambda: group_membership.write_sync_group_response(5, 7, NONE, ("consumer", "range"), bytes(50)),
        lambda: synced(
            throttle_time_ms=0, error_code=0, protocol_type="consumer", protocol_name="range", assignment=bytes(50)
        ),
    )  # fmt: skip
    yield Sample(
        "Heartbeat", ApiKey.HEARTBEAT, 4,
        codec.request(ApiKey.HEARTBEAT)(
            group_id="group", generation_id=1, member_id="member", group_instance_id=None
        ),
        group_membership.read_heartbeat_request,
        lambda: group_membership.write_heartbeat_response(4, 7, NONE),
        lambda: codec.response(ApiKey.HEARTBEAT)(throttle_time_ms=0, error_code=0),
    )  # fmt: skip
    yield from (_offset_commit(count) for count in (1, 100))
    yield from _transactions()


def _offset_commit(count: int) -> Sample:
    commit, committed = codec.request(ApiKey.OFFSET_COMMIT), codec.response(ApiKey.OFFSET_COMMIT)
    asked, answered = commit.OffsetCommitRequestTopic, committed.OffsetCommitResponseTopic

    def write() -> bytes:
        pack = offset_commit.result_struct(8).pack
        topic = offset_commit.topic_result(8, "orders", [pack(number, NONE) for number in range(count)])
        return offset_commit.write_offset_commit_response(8, 7, [topic])

    def response() -> Any:
        results = [
            answered.OffsetCommitResponsePartition(partition_index=number, error_code=0) for number in range(count)
        ]
        return committed(throttle_time_ms=0, topics=[answered(name="orders", partitions=results)])

    partitions = [
        asked.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
        )
        for number in range(count)
    ]
    request = commit(
        group_id="group", generation_id_or_member_epoch=1, member_id="member", group_instance_id=None,
        topics=[asked(name="orders", partitions=partitions)],
    )  # fmt: skip
    read = offset_commit.read_offset_commit_request
    return Sample(f"OffsetCommit of {count}", ApiKey.OFFSET_COMMIT, 8, request, read, write, response)


def _transactions() -> Iterator[Sample]:
    add, added = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN), codec.response(ApiKey.ADD_PARTITIONS_TO_TXN)
    topics = [add.AddPartitionsToTxnTopic(name="orders", partitions=[*range(PARTITIONS)])]
    result = added.AddPartitionsToTxnTopicResult
    yield Sample(
        f"AddPartitionsToTxn of {PARTITIONS}", ApiKey.ADD_PARTITIONS_TO_TXN, 3,
        add(v3_and_below_transactional_id="t", v3_and_below_producer_id=1, v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics),
        transactions.read_add_partitions_to_txn_request,
        lambda: transactions.write_partitions_added_to_txn(3, 7, TPS),
        lambda: added(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                result(
                    name="orders",
                    results_by_partition=[
                        result.AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=0)
                        for number in range(PARTITIONS)
                    ],
                )
            ],
        ),
    )  # fmt: skip
    yield Sample(
        "EndTxn", ApiKey.END_TXN, 3,
        codec.request(ApiKey.END_TXN)(transactional_id="t", producer_id=1, producer_epoch=0, committed=True),
        transactions.read_end_txn_request,
        lambda: transactions.write_end_txn_response(3, 7, NONE),
        lambda: codec.response(ApiKey.END_TXN)(throttle_time_ms=0, error_code=0),
    )  # fmt: skip


def main() -> int:
    table = Table("reading a request, writing its response", "opcodes by hand", "with tables", "saved")
    for sample in samples():
        by_hand, by_tables = sample.costs()
        table.add_row(sample.name, f"{by_hand:,}", f"{by_tables:,}", f"{by_tables - by_hand:,}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
