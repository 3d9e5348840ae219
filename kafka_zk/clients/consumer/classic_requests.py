"""The requests of the classic group protocol, as a member sends them to its coordinator.

Source: AbstractCoordinator.java, ConsumerCoordinator.java@3.9.
"""

from typing import Any

from kafka_zk.clients.connection.coordinators import COORDINATOR_GONE
from kafka_zk.clients.connection.errors import BrokerError
from kafka_zk.clients.connection.group_coordinator import GroupCoordinator
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.group_effects import (
    JoinAnswer,
    JoinedMember,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
)
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_zk.protocol.errors import ErrorCode

_JOIN_SLACK_MS = 5_000
"""Time beyond the rebalance timeout that Kafka's consumer waits for the response to JoinGroup."""

_JoinGroup = codec.request(ApiKey.JOIN_GROUP)
_SyncGroup = codec.request(ApiKey.SYNC_GROUP)
_Heartbeat = codec.request(ApiKey.HEARTBEAT)
_LeaveGroup = codec.request(ApiKey.LEAVE_GROUP)


class ClassicRequests:
    """A lost response is reported as NETWORK_EXCEPTION.

    Every method raises BrokerError if the request cannot be sent, and ClientClosed.
    """

    def __init__(self, config: ConsumerConfig, coordinator: GroupCoordinator) -> None:
        self._config = config
        self._coordinator = coordinator
        self._join_timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + _JOIN_SLACK_MS)

    async def join(self, effect: SendJoin) -> JoinAnswer:
        """The response waits for the other members."""
        protocol = _JoinGroup.JoinGroupRequestProtocol
        message = _JoinGroup(
            group_id=self._config.group_id,
            session_timeout_ms=self._config.session_timeout_ms,
            rebalance_timeout_ms=self._config.max_poll_interval_ms,
            member_id=effect.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=[protocol(name=name, metadata=metadata) for name, metadata in effect.protocols],
            reason=effect.reason or None,
        )
        response, code = await self._ask(ApiKey.JOIN_GROUP, message, self._join_timeout_ms)
        return JoinAnswer(code) if response is None else _join_answer(response)

    async def sync(self, effect: SendSync) -> tuple[ErrorCode, bytes]:
        """The response waits for the leader."""
        assignment = _SyncGroup.SyncGroupRequestAssignment
        message = _SyncGroup(
            group_id=self._config.group_id,
            generation_id=effect.generation_id,
            member_id=effect.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=effect.protocol_name,
            assignments=[assignment(member_id=name, assignment=given) for name, given in effect.assignments.items()],
        )
        response, code = await self._ask(ApiKey.SYNC_GROUP, message, self._join_timeout_ms)
        return code, b"" if response is None else bytes(response.assignment)

    async def heartbeat(self, effect: SendHeartbeat) -> ErrorCode:
        message = _Heartbeat(
            group_id=self._config.group_id,
            generation_id=effect.generation_id,
            member_id=effect.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        timeout_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms)
        _, code = await self._ask(ApiKey.HEARTBEAT, message, timeout_ms)
        return code

    async def leave(self, effect: SendLeave) -> None:
        """Ignores the response."""
        identity = _LeaveGroup.MemberIdentity
        message = _LeaveGroup(
            group_id=self._config.group_id,
            member_id=effect.member_id,
            members=[identity(member_id=effect.member_id, group_instance_id=None, reason=effect.reason)],
        )
        await self._ask(ApiKey.LEAVE_GROUP, message)

    async def _ask(self, api_key: ApiKey, message: Any, timeout_ms: int | None = None) -> tuple[Any, ErrorCode]:
        try:
            response = await self._coordinator.ask(api_key, message, timeout_ms=timeout_ms)
        except BrokerError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            return None, ErrorCode.NETWORK_EXCEPTION
        code = ErrorCode.of(response.error_code)
        if code in COORDINATOR_GONE:
            self._coordinator.forget()
        return response, code


def _join_answer(response: Any) -> JoinAnswer:
    members = tuple(
        JoinedMember(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in response.members or ()
    )
    return JoinAnswer(
        ErrorCode.of(response.error_code), response.member_id, response.generation_id, response.protocol_name or "",
        response.leader, bool(response.skip_assignment), members,
    )  # fmt: skip
