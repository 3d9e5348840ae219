"""Finds the topics and groups that a request names, and distinguishes brokers' requests from clients' requests."""

from collections.abc import Collection, Iterator
from typing import Any

from kafka_zk.broker.faults.fault import RequestNames
from kafka_zk.broker.handlers.services import Services
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch_request import TOPIC_IDS_SINCE, FetchRequest, read_fetch_request
from kafka_zk.protocol.message import Message
from kafka_zk.protocol.request import RequestHeader

_GROUP_FIELDS = frozenset({"group_id", "groups", "group_ids", "groups_names"})
_TOPIC_FIELDS = frozenset({"topic", "topics", "topic_name", "topic_names"})
_LONGEST_ID = 10
_OF_GROUP = 0  # the key type of groups in FindCoordinator


def is_of_broker(services: Services, header: RequestHeader, request: Any) -> bool:
    """True for requests from followers and other brokers. No fault hits these."""
    if _replica_id(request) >= 0:
        return True
    client_id = header.client_id or ""
    return client_id.isdecimal() and len(client_id) <= _LONGEST_ID and int(client_id) in services.metadata.brokers


def _replica_id(request: Any) -> int:
    state = getattr(request, "replica_state", None)
    replica_id: int = getattr(request, "replica_id", -1) if state is None else state.replica_id
    return replica_id


def names_in(services: Services, header: RequestHeader, body: memoryview, request: Any) -> RequestNames:
    """The names for filters. ``request``: decoded from ``body``. A Fetch also names the topics of its session."""
    if header.api_key == ApiKey.FETCH:
        fetch = read_fetch_request(header.api_version, body)
        return RequestNames(header.client_id, frozenset(_fetched_topics(services, header.api_version, fetch)))
    topics, groups = set(), set()
    for name, value, struct in _texts(request):
        if name in _GROUP_FIELDS:
            groups.add(value)
        elif name in _TOPIC_FIELDS or (name == "name" and "Topic" in struct):
            topics.add(value)
    if header.api_key == ApiKey.FIND_COORDINATOR and request.key_type == _OF_GROUP:
        groups.update((request.key, *request.coordinator_keys))
    return RequestNames(header.client_id, frozenset(topics), frozenset(groups))


def _fetched_topics(services: Services, version: int, request: FetchRequest) -> Iterator[str]:
    names = services.metadata.topic_names
    by_id = {topic_id.bytes: name for topic_id, name in names.items()} if version >= TOPIC_IDS_SINCE else {}
    for topic, _ in services.fetch_sessions.peek(request):
        name = topic if isinstance(topic, str) else by_id.get(topic)
        if name is not None:
            yield name


def _texts(message: Message) -> Iterator[tuple[str, str, str]]:
    """(Name of the field, string, name of the struct) for each string in a message."""
    for field in message.table.fields:
        value = getattr(message, field.name)
        values: Collection[Any] = (value or ()) if field.is_array else (value,)
        for each in values:
            if isinstance(each, Message):
                yield from _texts(each)
            elif isinstance(each, str):
                yield field.name, each, message.table.name
