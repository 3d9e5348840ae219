"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554) of a broker without SCRAM.

No user has a credential, and a change is refused: decision 0005.
Source: KafkaApis.handleDescribeUserScramCredentialsRequest, ZkAdminManager.describeUserScramCredentials@3.9.
"""

from collections import Counter
from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_NOT_BUILT = "This broker does not support SASL/SCRAM; no credential was changed."

DescribeResponse = codec.response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
DescribedUser = DescribeResponse.DescribeUserScramCredentialsResult
AlterResponse = codec.response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
AlteredUser = AlterResponse.AlterUserScramCredentialsResult


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Nothing if the request asks for all users, RESOURCE_NOT_FOUND for each user that it names."""
    if not services.authorizer.authorize(context, Operation.DESCRIBE, CLUSTER):
        return DescribeResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message="Cluster authorization failed.",
            results=[],
        )
    asked = Counter(user.name for user in request.users or ())
    results = []
    for name, times in asked.items():
        error = _error(name, times)
        results.append(
            DescribedUser(user=name, error_code=error.code, error_message=error.message, credential_infos=[])
        )
    return DescribeResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, error_message="", results=results)


def _error(name: str, times: int) -> ApiError:
    if not name:
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, message)
    message = f"Attempt to describe a user credential that does not exist: {name}"
    return ApiError(ErrorCode.RESOURCE_NOT_FOUND, message)


async def alter(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """INVALID_REQUEST for each user that the request names."""
    error = ApiError(ErrorCode.INVALID_REQUEST, _NOT_BUILT)
    if not services.authorizer.authorize(context, Operation.ALTER, CLUSTER):
        error = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    names = {each.name for each in (*request.deletions, *request.upsertions)}
    return AlterResponse(
        throttle_time_ms=0,
        results=[AlteredUser(user=name, error_code=error.code, error_message=error.message) for name in sorted(names)],
    )
