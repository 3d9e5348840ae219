"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: there are no broker-side groups in this broker yet.

The code is a retriable one: a client tries again and says why, and finds its group when the broker can do it.

Source: GroupCoordinator.scala@3.9 (a coordinator that is not active).
"""

from typing import Any

from twisted.logger import Logger

from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_log = Logger()

REMEMBERED_CLIENTS = 1000
"""So many are known to have been told of; a client of before that is told of again."""

_CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NO_GENERATION = -1

_Join = codec.response(ApiKey.JOIN_GROUP)
_Sync = codec.response(ApiKey.SYNC_GROUP)
_Heartbeat = codec.response(ApiKey.HEARTBEAT)
_Leave = codec.response(ApiKey.LEAVE_GROUP)


async def join(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE, with the member id that was sent."""
    _tell_once(services, context.peer_host, header.client_id, request.group_id)
    return _Join(
        throttle_time_ms=0,
        error_code=_CODE,
        generation_id=_NO_GENERATION,
        protocol_type=None,
        protocol_name=None if header.api_version >= 7 else "",
        leader="",
        skip_assignment=False,
        member_id=request.member_id,
        members=[],
    )


async def sync(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE."""
    return _Sync(throttle_time_ms=0, error_code=_CODE, protocol_type=None, protocol_name=None, assignment=b"")


async def heartbeat(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE."""
    return _Heartbeat(throttle_time_ms=0, error_code=_CODE)


async def leave(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE."""
    return _Leave(throttle_time_ms=0, error_code=_CODE, members=[])


def _tell_once(services: Services, host: str, client_id: str | None, group: str) -> None:
    """Clients try several times a second for as long as they are let; some of them say nothing about it."""
    told, client = services.refused_joins, (host, client_id, group)
    if client in told:
        return
    if len(told) >= REMEMBERED_CLIENTS:
        del told[next(iter(told))]
    told[client] = None
    _log.warn(
        "client {client_id} at {host} cannot join group {group} and will go on trying: brokers coordinate no groups"
        " yet, only consumers that use ZooKeeper do",
        client_id=client_id,
        host=host,
        group=group,
    )
