"""DescribeAcls, CreateAcls and DeleteAcls, on any broker; SECURITY_DISABLED without an authorizer.

An invalid ACL fails alone; in Kafka, other ACLs of its resource can fail with it.
Source: AclApis.scala, AclAuthorizer.createAcls and deleteAcls@3.9.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, AclStore, Operation
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.security import acl as vocabulary
from kafka_zk.security.acl import Acl, AclFilter, InvalidAcl, Pattern, PatternType, Permission, ResourceType

DescribeResponse = codec.response(ApiKey.DESCRIBE_ACLS)
CreateResponse = codec.response(ApiKey.CREATE_ACLS)
DeleteResponse = codec.response(ApiKey.DELETE_ACLS)
Described = DescribeResponse.DescribeAclsResource
Created = CreateResponse.AclCreationResult
FilterResult = DeleteResponse.DeleteAclsFilterResult

_PATTERN_TYPES_SINCE = 1
_NOT_CONFIGURED = "No Authorizer is configured."

E = TypeVar("E", ResourceType, PatternType, Operation, Permission)


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the ACLs that match the filter, by resource."""
    wanted = _filter(header, request)
    turns = ResponseTurns(services.clock, context)
    resources = EncodedArray(turns, header, "resources")
    response = DescribeResponse(error_message=None)
    try:
        store = _store(services, context, Operation.DESCRIBE, f"{_NOT_CONFIGURED[:-1]} on the broker")
    except ApiError as error:
        response.error_code, response.error_message = error.code, error.message
        return await resources.body(response)
    async for pattern, acls in turns.each(store.described(wanted).items()):
        await turns.make(len(acls) * OBJECT_BYTES)
        await resources.add(
            Described(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[Described.AclDescription(**_fields(acl)) for acl in acls],
            )
        )
    return await resources.body(response)


async def create(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return a result for each ACL. ACLs of one resource are written together."""
    turns = ResponseTurns(services.clock, context)
    wanted = [_creation(header, each) async for each in turns.each(request.creations)]
    by_pattern: dict[Pattern, set[Acl]] = {}
    outcomes: list[Exception | None] = []
    store: AclStore | None = None
    for pattern, acl in wanted:
        await turns.make()
        try:
            store = store or _store(services, context, Operation.ALTER, _NOT_CONFIGURED)
            vocabulary.check(pattern, acl)
            by_pattern.setdefault(pattern, set()).add(acl)
            outcomes.append(None)
        except ApiError as error:
            outcomes.append(error)
        except InvalidAcl as error:
            outcomes.append(ApiError(ErrorCode.INVALID_REQUEST, str(error)))
    failures: dict[Pattern, Exception] = {}
    for pattern, acls in by_pattern.items():
        try:
            assert store is not None  # without a store, no ACL is valid
            await store.add(pattern, frozenset(acls))
        except EXPECTED as error:
            failures[pattern] = _not_written(error)
    results = zip(wanted, outcomes, strict=True)
    return CreateResponse(results=[_created(outcome or failures.get(pattern)) for (pattern, _), outcome in results])


async def delete(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the removed ACLs per filter."""
    filters = [_filter(header, each) for each in request.filters]
    results = []
    turns = ResponseTurns(services.clock, context)
    async for wanted in turns.each(filters):
        try:
            store = _store(services, context, Operation.ALTER, _NOT_CONFIGURED)
        except ApiError as error:
            results.append(FilterResult(error_code=error.code, error_message=error.message))
            continue
        matching: list[Any] = []
        async for pattern, acls in turns.each(store.described(wanted).items()):
            await turns.make(len(acls) * OBJECT_BYTES)
            try:
                matching += [_deleted(pattern, acl, None) for acl in sorted(await store.remove(pattern, wanted))]
            except EXPECTED as error:
                matching += [_deleted(pattern, acl, error) for acl in acls]
        results.append(FilterResult(error_message=None, matching_acls=matching))
    return DeleteResponse(filter_results=results)


def _store(services: Services, context: RequestContext, operation: Operation, without: str) -> AclStore:
    if not services.authorizer.authorize(context, operation, CLUSTER):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if services.authorizer.acls is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, without)
    return services.authorizer.acls


def _known(kind: type[E], number: int) -> E:
    """The enum member with this number. Raises: ProtocolError, which closes the connection as in Kafka."""
    try:
        return kind(number)
    except ValueError:
        raise ProtocolError(f"{kind.__name__} {number} is not known") from None


def _filter(header: RequestHeader, asked: Any) -> AclFilter:
    has_pattern_type = header.api_version >= _PATTERN_TYPES_SINCE
    return AclFilter(
        _known(ResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _known(PatternType, asked.pattern_type_filter) if has_pattern_type else PatternType.LITERAL,
        asked.principal_filter,
        asked.host_filter,
        _known(Operation, asked.operation),
        _known(Permission, asked.permission_type),
    )


def _creation(header: RequestHeader, asked: Any) -> tuple[Pattern, Acl]:
    has_pattern_type = header.api_version >= _PATTERN_TYPES_SINCE
    pattern = Pattern(
        _known(ResourceType, asked.resource_type),
        asked.resource_name,
        _known(PatternType, asked.resource_pattern_type) if has_pattern_type else PatternType.LITERAL,
    )
    operation, permission = _known(Operation, asked.operation), _known(Permission, asked.permission_type)
    return pattern, Acl(asked.principal, asked.host, operation, permission)


def _fields(acl: Acl) -> Mapping[str, Any]:
    principal, host, operation, permission = acl
    return {"principal": principal, "host": host, "operation": operation, "permission_type": permission}


def _not_written(error: Exception) -> Exception:
    """The error for ACLs that were not written. A resource name that cannot be a znode name is the client's error;
    Kafka gives no reason."""
    return ApiError(ErrorCode.INVALID_REQUEST, str(error)) if isinstance(error, InvalidZnode) else error


def _created(error: Exception | None) -> Any:
    if error is None:
        return Created(error_message=None)
    return Created(error_code=error_code(error), error_message=error_message(error))


def _deleted(pattern: Pattern, acl: Acl, error: Exception | None) -> Any:
    return FilterResult.DeleteAclsMatchingAcl(
        error_code=0 if error is None else error_code(error),
        error_message=None if error is None else error_message(error),
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        **_fields(acl),
    )
