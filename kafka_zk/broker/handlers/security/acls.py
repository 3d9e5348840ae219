"""DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer: SECURITY_DISABLED.

Source: AclApis.scala@3.9.
"""

from typing import Any

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

DescribeResponse = codec.response(ApiKey.DESCRIBE_ACLS)
CreateResponse = codec.response(ApiKey.CREATE_ACLS)
DeleteResponse = codec.response(ApiKey.DELETE_ACLS)


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """No resources, and why."""
    error = _error(services, context, Operation.DESCRIBE, "No Authorizer is configured on the broker")
    return DescribeResponse(throttle_time_ms=0, error_code=error.code, error_message=error.message, resources=[])


async def create(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error for each ACL of the request."""
    error = _error(services, context, Operation.ALTER, "No Authorizer is configured.")
    result = CreateResponse.AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateResponse(throttle_time_ms=0, results=[result] * len(request.creations))


async def delete(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """The error for each filter of the request."""
    error = _error(services, context, Operation.ALTER, "No Authorizer is configured.")
    result = DeleteResponse.DeleteAclsFilterResult(error_code=error.code, error_message=error.message, matching_acls=[])
    return DeleteResponse(throttle_time_ms=0, filter_results=[result] * len(request.filters))


def _error(services: Services, context: RequestContext, operation: Operation, message: str) -> ApiError:
    if not services.authorizer.authorize(context, operation, CLUSTER):
        return ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return ApiError(ErrorCode.SECURITY_DISABLED, message)
