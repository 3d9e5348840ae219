"""The metadata log as a controller serves it: the recorded one, in portions, with and without a snapshot."""

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.migration.metadata.log_fetch import Address, fetch_log
from kafka_zk.migration.metadata.log_folder import METADATA_LOG, read_folder
from kafka_zk.migration.metadata.replay import MetadataLog, UnreadableMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import iter_batches
from tests.kafka_zk.migration.metadata.both_sides import LAST_OFFSET, RECORDED, SNAPSHOT_END

LOG = (RECORDED / METADATA_LOG / "00000000000000000000.log").read_bytes()
SNAPSHOT = (RECORDED / METADATA_LOG / "00000000000000000058-0000000001.checkpoint").read_bytes()
CONTROLLERS = {3000: ("h", 1), 3001: ("h", 2)}
EPOCH = 1
_Fetch = codec.response(ApiKey.FETCH)
_FetchSnapshot = codec.response(ApiKey.FETCH_SNAPSHOT)
_Part = _Fetch.FetchableTopicResponse.PartitionData


class Leader:
    """Serves the recorded log from ``start`` on, and the snapshot before it. All messages pass the codec."""

    def __init__(self, start: int = 0, high_watermark: int = LAST_OFFSET + 1, portion_bytes: int = 700) -> None:
        self._start = start
        self._high_watermark = high_watermark
        self._portion_bytes = portion_bytes
        self.error_code = int(ErrorCode.NONE)

    async def request(self, api_key: int, message: Any, *, version: int | None = None) -> Any:
        assert version is not None
        sent = codec.decode_request(api_key, version, codec.encode_body(message, api_key, version))
        answer = (self._fetched if api_key == ApiKey.FETCH else self._snapshot)(sent)
        return codec.decode_response(api_key, version, bytes(codec.encode_body(answer, api_key, version)))

    def _fetched(self, request: Any) -> Any:
        (topic,) = request.topics
        (asked,) = topic.partitions
        fields: dict[str, Any] = {"high_watermark": self._high_watermark, "records": b""}
        if asked.current_leader_epoch != EPOCH:
            leader = _Part.LeaderIdAndEpoch(leader_id=3001, leader_epoch=EPOCH)
            fields.update(error_code=int(ErrorCode.INVALID_REQUEST), current_leader=leader)
        elif asked.fetch_offset < self._start:
            fields["snapshot_id"] = _Part.SnapshotId(end_offset=SNAPSHOT_END, epoch=EPOCH)
        else:
            fields["records"] = self._records(asked.fetch_offset)
        part = _Part(partition_index=0, aborted_transactions=[], **fields)
        answer = _Fetch.FetchableTopicResponse(topic_id=topic.topic_id, partitions=[part])
        return _Fetch(error_code=self.error_code, responses=[] if self.error_code else [answer])

    def _records(self, offset: int) -> bytes:
        """The log from the offset on: at least one whole batch (KIP-74)."""
        for position, header in iter_batches(LOG):
            if header.next_offset > offset:
                return LOG[position : position + max(self._portion_bytes, header.size_bytes)]
        return b""

    def _snapshot(self, request: Any) -> Any:
        (asked,) = request.topics[0].partitions
        assert (asked.snapshot_id.end_offset, asked.snapshot_id.epoch) == (SNAPSHOT_END, EPOCH)
        topic = _FetchSnapshot.TopicSnapshot
        part = topic.PartitionSnapshot(
            index=0, error_code=0, snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=SNAPSHOT_END, epoch=EPOCH),
            size=len(SNAPSHOT), position=asked.position,
            unaligned_records=SNAPSHOT[asked.position : asked.position + self._portion_bytes],
        )  # fmt: skip
        return _FetchSnapshot(error_code=0, topics=[topic(name="__cluster_metadata", partitions=[part])])


def fetched(leader: Leader, controllers: Mapping[int, Address] = CONTROLLERS) -> MetadataLog:
    async def connect(address: Address) -> Leader:
        return leader

    results: list[Any] = []
    Deferred.fromCoroutine(fetch_log(connect, controllers, 3000)).addBoth(results.append)
    if not isinstance(results[0], MetadataLog):
        results[0].raiseException()
    log: MetadataLog = results[0]
    return log


@pytest.mark.parametrize("start", [0, SNAPSHOT_END])
def test_the_log_of_the_leader_is_that_of_its_folder(start: int) -> None:
    found, expected = fetched(Leader(start)), read_folder(RECORDED)
    assert (found.image, found.end_offset, found.state) == (expected.image, expected.end_offset, expected.state)
    assert found.source == "controller 3001"


def test_records_above_the_high_watermark_do_not_count() -> None:
    whole = fetched(Leader())
    found = fetched(Leader(high_watermark=SNAPSHOT_END))
    assert found.end_offset == SNAPSHOT_END and found.image != whole.image


def test_a_refusal() -> None:
    leader = Leader()
    leader.error_code = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        fetched(leader)


def test_a_leader_whose_address_is_not_known() -> None:
    with pytest.raises(UnreadableMetadata, match="the leader 3001, which was not reached"):
        fetched(Leader(), {3000: ("h", 1)})


def test_a_log_that_ends_too_early() -> None:
    with pytest.raises(UnreadableMetadata, match=f"no records at offset {LAST_OFFSET + 1}"):
        fetched(Leader(high_watermark=1000))


def test_a_snapshot_that_ends_too_early() -> None:
    with pytest.raises(UnreadableMetadata, match="the snapshot of the leader ends at 0"):
        fetched(Leader(SNAPSHOT_END, portion_bytes=0))
