"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554), stored in ``/config/users``.

Clients send salted passwords, from which the broker derives the stored keys. Only the controller changes them, with
conditional writes, so that concurrent changes of a user all take effect.
Source: KafkaApis.handleDescribeUserScramCredentialsRequest, ZkAdminManager.describeUserScramCredentials and
alterUserScramCredentials@3.9.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka_zk.broker.handlers.error_map import EXPECTED, error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.broker.security.scram_credentials import credentials
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.client.errors import SessionLost
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize, sanitize
from kafka_zk.security import scram

DescribeResponse = codec.response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
DescribedUser = DescribeResponse.DescribeUserScramCredentialsResult
AlterResponse = codec.response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
AlteredUser = AlterResponse.AlterUserScramCredentialsResult

_MECHANISMS = {number: name for name, number in scram.MECHANISM_NUMBERS.items()}


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the requested users, or all with a credential."""
    if not services.authorizer.authorize(context, Operation.DESCRIBE, CLUSTER):
        return DescribeResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    asked = Counter(user.name for user in request.users or ())
    encoded = [sanitize(name) for name in asked if name] or await services.configs.entity_names("users")
    wanted = [name for name in encoded if name != DEFAULT_ENTITY]
    found: dict[str, dict[str, scram.ScramCredential]] = {}
    turns = ResponseTurns(services.clock, context)
    for start in range(0, len(wanted), READS_AT_ONCE):
        some = wanted[start : start + READS_AT_ONCE]
        stored = await services.configs.synced_entities("users", some)
        async for name in turns.each(some):
            found[desanitize(name)] = credentials(name, stored.get(name, {}))
    if asked:
        results = [_described(name, asked[name], found.get(name, {})) for name in asked]
    else:
        results = [_described(name, 1, found[name]) async for name in turns.each(sorted(filter(found.get, found)))]
    return DescribeResponse(results=results)


def _described(name: str, times: int, found: Mapping[str, scram.ScramCredential]) -> Any:
    error = _describe_error(name, times, found)
    if error is not None:
        return DescribedUser(user=name, error_code=error.code, error_message=error.message)
    infos = [
        DescribedUser.CredentialInfo(mechanism=scram.MECHANISM_NUMBERS[mechanism], iterations=credential.iterations)
        for mechanism, credential in sorted(found.items())
    ]
    return DescribedUser(user=name, credential_infos=infos)


def _describe_error(name: str, times: int, found: Mapping[str, scram.ScramCredential]) -> ApiError | None:
    if not name:
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return ApiError(ErrorCode.DUPLICATE_RESOURCE, message)
    if not found:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return None


async def alter(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Change credentials. Either all changes of a user take effect, or none.

    This broker applies them before it responds, so that a client that continues here can log in at once (KAFKA-21069);
    other brokers follow the notification.
    """
    deletions, upsertions = _by_name(request.deletions), _by_name(request.upsertions)
    results = []
    async for name in ResponseTurns(services.clock, context).each(dict.fromkeys([*deletions, *upsertions])):
        results.append(await _altered(services, context, name, deletions.get(name, ()), upsertions.get(name, ())))
    changed = [sanitize(each.user) for each in results if each.error_code == ErrorCode.NONE]
    with suppress(SessionLost):  # the changes are stored, and a new session reads all users
        await services.scram_credentials.reload(services.configs, changed)
    return AlterResponse(results=results)


def _by_name(changes: Iterable[Any]) -> dict[str, list[Any]]:
    named: dict[str, list[Any]] = {}
    for each in changes:
        named.setdefault(each.name, []).append(each)
    return named


async def _altered(
    services: Services, context: RequestContext, name: str, deletions: Sequence[Any], upsertions: Sequence[Any]
) -> Any:
    try:
        if not services.controller.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if not services.authorizer.authorize(context, Operation.ALTER, CLUSTER):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        _check(name, deletions, upsertions)

        def change(present: Mapping[str, str]) -> dict[str, str]:
            return _changed(present, [_MECHANISMS[each.mechanism] for each in deletions], upsertions)

        await services.configs.update_entity("users", sanitize(name), change, removes_empty=True)
    except EXPECTED as error:
        return AlteredUser(user=name, error_code=error_code(error), error_message=error_message(error))
    return AlteredUser(user=name, error_message=None)


def _check(name: str, deletions: Iterable[Any], upsertions: Iterable[Any]) -> None:
    changes = [*deletions, *upsertions]
    if not name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if any(change.mechanism not in _MECHANISMS for change in changes):
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    for upsertion in upsertions:
        if upsertion.iterations < scram.MIN_ITERATIONS:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if upsertion.iterations > scram.MAX_ITERATIONS:
            raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if max(Counter(change.mechanism for change in changes).values()) > 1:
        raise ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )


def _changed(present: Mapping[str, str], deleted: Iterable[str], upsertions: Iterable[Any]) -> dict[str, str]:
    """The user's configuration after the changes."""
    changed = dict(present)
    for mechanism in deleted:
        if changed.pop(mechanism, None) is None:
            message = "Attempt to delete a user credential that does not exist"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, message)
    for each in upsertions:
        mechanism = _MECHANISMS[each.mechanism]
        credential = scram.credential(mechanism, bytes(each.salted_password), bytes(each.salt), each.iterations)
        changed[mechanism] = scram.encode_credential(credential)
    return changed
