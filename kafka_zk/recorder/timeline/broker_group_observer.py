"""Observes a broker-coordinated group from outside and reports changes as events.

It works with any cluster, including Apache Kafka: it polls the coordinator for the group's state and reads the
assignments of each generation from its record in ``__consumer_offsets``. Only the coordinator knows why a member left;
the trace of its broker contains the reason. Source of the records: GroupMetadataValue.json@3.9.
"""

from typing import Any

from kafka_zk.base.clock import monotonic_s, wall_ms
from kafka_zk.base.events import EventSource, Observe
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.keys import partition_for
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import GroupKey, GroupMetadataValue, decode_group_value, decode_key
from kafka_zk.broker.group.reporter import assigned_partitions, owned_partitions
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.admin.group_admin import GroupDescription
from kafka_zk.clients.connection.errors import KafkaError, NoBrokersAvailable
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.recorder.timeline.events import FIRST_LOOK, OBSERVER, GenerationSeen, SeenMember, StateSeen
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity

_TIMEOUT_MS = 2_000
_FIRST_LOOK_S = 20.0
"""Time limit of the first read, which is longer because the first request for a group creates
``__consumer_offsets``."""


class BrokerGroupObserver:
    """``poll`` reads the group's state. A context manager that calls ``close``.

    Raises: KafkaError if the first read of the group fails.
    """

    def __init__(
        self, bootstrap: str, group: str, observe: Observe, security: ClientSecurity = NO_SECURITY
    ) -> None:
        timeouts: dict[str, Any] = {"default_api_timeout_ms": _TIMEOUT_MS, "request_timeout_ms": _TIMEOUT_MS}
        self._group = group
        self._observe = observe
        self._source = EventSource(OBSERVER, observe)
        self._state: str | None = None
        self.trouble: str | None = None
        """Why the last poll failed; None after a success."""
        self._admin = BlockingAdmin(bootstrap_servers=bootstrap, security=security, **timeouts)
        self._reader = BlockingReader(bootstrap_servers=bootstrap, security=security, **timeouts)
        try:
            self.has_no_members = self._begin()
            """True if the group had no member in the first read."""
        except BaseException:
            self.close()
            raise

    def poll(self, timeout_ms: int) -> None:
        """Wait ``timeout_ms`` for records, then read the state; a missing response is not an error."""
        for record in self._reader.poll(timeout_ms):
            self._take(record)
        asked_ms = wall_ms()
        try:
            self._see_state(self._describe(), asked_ms)
            self.trouble = None
        except KafkaError as error:
            self.trouble = str(error)

    def close(self) -> None:
        self._reader.close()
        self._admin.close()

    def _begin(self) -> bool:
        """Report each member once. Return True if the group has no members."""
        self._describe_first()
        count = len(self._reader.partitions_for(OFFSETS_TOPIC).partitions)
        tp = TopicPartition(OFFSETS_TOPIC, partition_for(self._group, count))
        self._reader.assign(dict(self._reader.end_offsets([tp])))
        asked_ms = wall_ms()
        described = self._describe()
        members = tuple(SeenMember(each.member_id, each.partitions, each.partitions) for each in described.members)
        self._source.emit(GenerationSeen, -1, described.assignor, "", -1, members, cause=FIRST_LOOK)
        self._see_state(described, asked_ms)
        return not described.members

    def _describe_first(self) -> None:
        deadline_s = monotonic_s() + _FIRST_LOOK_S
        while True:
            try:
                self._describe()
                return
            except NoBrokersAvailable:
                raise
            except KafkaError:
                if monotonic_s() > deadline_s:
                    raise

    def _describe(self) -> GroupDescription:
        return self._admin.groups.describe_groups([self._group])[self._group]

    def _see_state(self, described: GroupDescription, asked_ms: int) -> None:
        """``asked_ms``: when the request was sent, so that the time is before the record of the next state."""
        if described.state != self._state:
            self._state = described.state
            self._observe(StateSeen(asked_ms, OBSERVER, "state changed", 0, described.state))

    def _take(self, record: ConsumerRecord) -> None:
        try:
            if record.key is None or decode_key(record.key) != GroupKey(self._group) or record.value is None:
                return
            self._observe(_seen(decode_group_value(record.value), record.timestamp_ms))
        except ProtocolError:
            return  # the record was written by another program


def _seen(group: GroupMetadataValue, time_ms: int) -> GenerationSeen:
    members = tuple(
        SeenMember(each.member_id, owned_partitions(each.subscription), assigned_partitions(each.assignment))
        for each in group.members
    )
    return GenerationSeen(
        time_ms, OBSERVER, "record", 0, group.generation_id, group.protocol_name or "", group.leader or "",
        group.state_timestamp_ms, members,
    )  # fmt: skip
