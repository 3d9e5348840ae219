"""Asks a group's coordinator whether the group exists, because a fault of a misspelt group would show nothing."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.base.turns import after
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.states import GroupState
from kafka_zk.broker.handlers.services import Services
from kafka_zk.network.client import KafkaConnection
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

COORDINATOR_ERRORS = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
)
"""Errors of a broker that is not the coordinator, or not yet."""

_ATTEMPTS = 100
_INTERVAL_S = 0.02
_TIMEOUT_S = 3
_log = Logger()

ConnectToBroker = Callable[[int], Awaitable[KafkaConnection]]
"""Connects to another broker, by its id."""


async def may_exist(services: Services, connect: ConnectToBroker, group: str) -> bool:
    """False if the coordinator says that the group has neither members nor offsets. True also if the coordinator does
    not respond, for example because it is paused."""
    for _ in range(_ATTEMPTS):
        try:
            asking = Deferred.fromCoroutine(_described(services, connect, group))
            code, state = await asking.addTimeout(_TIMEOUT_S, cast(Any, services.clock))
        except Exception as error:  # many errors are possible, and none of them says that the group does not exist
            _log.info("the fault of group {group} begins unchecked: {error!r}", group=group, error=error)
            return True
        if code not in COORDINATOR_ERRORS:
            return state != GroupState.DEAD.value
        await after(services.clock, _INTERVAL_S)
    return True


async def _described(services: Services, connect: ConnectToBroker, group: str) -> tuple[int, str]:
    """The error code and the group's state, as in DescribeGroups."""
    info = services.metadata.partition(OFFSETS_TOPIC, services.coordinator.partition_for(group))
    if info is None or info.leader in (services.broker_id, -1):
        known = services.coordinator.describe(group)
        return known.error, known.state
    connection = await connect(info.leader)
    try:
        answer = await connection.request(ApiKey.DESCRIBE_GROUPS, groups=[group])
    finally:
        connection.disconnect()
    [described] = answer.groups
    return described.error_code, described.group_state
