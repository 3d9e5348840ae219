"""ListOffsets: the earliest and latest offset of partitions, and the first one at or after a timestamp.

With tiered storage, the earliest offset may exist only in the remote tier; EARLIEST_LOCAL is the first on the leader's
disk.

The client asks each partition's leader, and retries while its metadata is outdated.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import gatherResults

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.connections import version_between
from kafka_zk.clients.connection.errors import (
    AuthenticationError,
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    broker_error,
)
from kafka_zk.clients.connection.waiting import Reactor, run, sleep
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

EARLIEST = -2
LATEST = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
_LOWEST_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}  # KIP-734, KIP-405
_VERSION_MAX = 9
_CONSUMER = -1

_Request = codec.request(ApiKey.LIST_OFFSETS)
_Topic = _Request.ListOffsetsTopic
_Partition = _Topic.ListOffsetsPartition


class ListedOffset(NamedTuple):
    """``offset``: -1 if no record is at or after the timestamp. ``timestamp_ms``: -1 for earliest and latest.

    ``leader_epoch``: the leader epoch of the record's batch; -1 if the broker does not return it.
    """

    offset: int
    timestamp_ms: int
    leader_epoch: int


async def list_offsets(
    reactor: Reactor,
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    timeout_ms: int,
    retry_backoff_ms: int,
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, ListedOffset]:
    """One offset for each partition, in the order of ``wanted``.

    Args:
        wanted: per partition EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL or a timestamp in ms since the epoch.
        read_committed: the end is the last stable offset instead of the high watermark.
    Raises: BrokerError for a permanent error; KafkaTimeoutError with the last cause after ``timeout_ms``.
    """
    deadline_s = reactor.seconds() + timeout_ms / 1000
    left = dict(wanted)
    found: dict[TopicPartition, ListedOffset] = {}
    for topic in sorted({tp.topic for tp in wanted}):
        count = len((await cluster.topic(topic, timeout_ms)).partitions)
        for tp in sorted(wanted):
            if tp.topic == topic and tp.partition >= count:
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp}: {topic} has 0..{count - 1}")
    while True:
        answers = await try_offsets(cluster, left, read_committed=read_committed)
        found.update((tp, each) for tp, each in answers.items() if isinstance(each, ListedOffset))
        causes = [each for each in answers.values() if isinstance(each, KafkaError)]
        left = {tp: spec for tp, spec in left.items() if tp not in found}
        if not left:
            return {tp: found[tp] for tp in wanted}
        fatal = next((cause for cause in causes if not cause.retriable), None)
        if fatal is not None:
            raise fatal
        if reactor.seconds() + retry_backoff_ms / 1000 >= deadline_s:
            raise KafkaTimeoutError(f"offsets of {min(left)} not found after {timeout_ms} ms; last: {causes[-1]}")
        await sleep(reactor, retry_backoff_ms / 1000)
        await cluster.refresh()


async def try_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    """Ask each known leader once. A failure is returned as the result of its partitions, without delaying others."""
    found: dict[TopicPartition, ListedOffset | KafkaError] = {}
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    for tp, spec in wanted.items():
        leader = cluster.metadata.leader_id(tp)
        if leader is None:
            found[tp] = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"offsets of {tp}")
        else:
            by_leader.setdefault(leader, {})[tp] = spec
    asked = [run(_ask(cluster, node_id, part, read_committed)) for node_id, part in sorted(by_leader.items())]
    for answers in await gatherResults(asked, consumeErrors=True):
        found.update(answers)
    return found


async def _ask(
    cluster: Cluster, node_id: int, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, ListedOffset | KafkaError]:
    topics: dict[str, list[Any]] = {}
    for (topic, partition), spec in wanted.items():
        topics.setdefault(topic, []).append(
            _Partition(
                partition_index=partition,
                current_leader_epoch=cluster.metadata.leader_epoch(TopicPartition(topic, partition)),
                timestamp=spec,
                max_num_offsets=1,
            )
        )
    message = _Request(
        replica_id=_CONSUMER,
        isolation_level=int(read_committed),
        topics=[_Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    try:
        connection = await cluster.connection(node_id)
        version = version_between(connection, ApiKey.LIST_OFFSETS, 1, _VERSION_MAX)
        if version < max(_LOWEST_VERSIONS.get(spec, 1) for spec in wanted.values()):
            return dict.fromkeys(wanted, broker_error(ErrorCode.UNSUPPORTED_VERSION, "offsets of this kind"))
        response = await connection.request(ApiKey.LIST_OFFSETS, message, version=version)
    except (AuthenticationError, BrokerError) as error:
        return dict.fromkeys(wanted, error)
    except Exception as error:
        failure = broker_error(ErrorCode.NETWORK_EXCEPTION, f"offsets from broker {node_id}", str(error))
        return dict.fromkeys(wanted, failure)
    found: dict[TopicPartition, ListedOffset | KafkaError] = {
        tp: broker_error(ErrorCode.NETWORK_EXCEPTION, f"offsets of {tp}", "no answer") for tp in wanted
    }
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                found[tp] = broker_error(each.error_code, f"offsets of {tp}")
            else:
                epoch = -1 if each.leader_epoch is None else each.leader_epoch
                found[tp] = ListedOffset(each.offset, each.timestamp, epoch)
    return found
