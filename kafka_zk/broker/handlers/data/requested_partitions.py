"""A Fetch request's partitions: names, and whether the client may read them."""

import functools
import uuid
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import PartitionKey, TopicKey, Wanted
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, topic
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest
from kafka_zk.protocol.request import RequestContext

_RESOLVED_IN_A_TURN = 250


class RequestedPartition(NamedTuple):
    """``error``: why the partition cannot be read at all, or None."""

    topic: TopicKey
    tp: TopicPartition
    fetch: FetchPartition
    error: ErrorCode | None


async def resolve_in_turns(
    services: Services, context: RequestContext, request: FetchRequest, asked: Wanted
) -> list[RequestedPartition]:
    """Like ``resolve``, but in turns of the reactor if the request has many partitions."""
    remaining = iter(list(asked.items()))  # a session may change between turns
    turns = Turns(services.clock)
    wanted: list[RequestedPartition] = []
    while some := resolve(services, context, request, islice(remaining, _RESOLVED_IN_A_TURN)):
        wanted += some
        if turns.is_over:
            await turns.next()
    return wanted


def resolve(
    services: Services,
    context: RequestContext,
    request: FetchRequest,
    asked: Iterable[tuple[PartitionKey, FetchPartition]],
) -> list[RequestedPartition]:
    """Find the topics' names and check whether the client may read them."""
    names: dict[TopicKey, tuple[str, ErrorCode | None]] = {}
    known = services.metadata.topics
    wanted = []
    for (key, partition), fetch in asked:
        if key not in names:
            names[key] = resolve_topic(services, context, request, key)
        name, error = names[key]
        if error is None and request.replica_id < 0 and partition not in known.get(name, ()):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wanted.append(RequestedPartition(key, TopicPartition(name, partition), fetch, error))
    return wanted


@functools.lru_cache(maxsize=1000)
def _topic_id(key: bytes) -> uuid.UUID:
    """The topic id from its bytes. Cached, because consumers use the same few topics, and creating the object costs as
    much as a lookup."""
    return uuid.UUID(bytes=key)


def resolve_topic(
    services: Services, context: RequestContext, request: FetchRequest, key: TopicKey
) -> tuple[str, ErrorCode | None]:
    """The topic's name, "" if it is unknown, and the error if the client must not read it."""
    is_follower = request.replica_id >= 0
    name = services.metadata.topic_names.get(_topic_id(key)) if isinstance(key, bytes) else key
    if name is None and is_follower and isinstance(key, bytes):
        name = services.replicas.topic_ids.name(_topic_id(key))  # LeaderAndIsr arrives before UpdateMetadata
    if is_follower and not services.authorizer.authorize(context, Operation.CLUSTER_ACTION, CLUSTER):
        return name or "", ErrorCode.TOPIC_AUTHORIZATION_FAILED  # followers may read up to the log end
    if name is None:
        return "", ErrorCode.UNKNOWN_TOPIC_ID
    if not is_follower and not services.authorizer.authorize(context, Operation.READ, topic(name)):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return name, None
