"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: there are no broker-side groups in this broker yet.

The code is a retriable one: a client tries again and says why, and finds its group when the broker can do it.

Source: GroupCoordinator.scala@3.9 (a coordinator that is not active).
"""

from typing import Any

from kafka_zk.handlers.services import Services
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NO_GENERATION = -1

_Join = codec.response(ApiKey.JOIN_GROUP)
_Sync = codec.response(ApiKey.SYNC_GROUP)
_Heartbeat = codec.response(ApiKey.HEARTBEAT)
_Leave = codec.response(ApiKey.LEAVE_GROUP)


async def join(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """COORDINATOR_NOT_AVAILABLE, with the member id that was sent."""
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
