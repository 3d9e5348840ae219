"""DescribeClientQuotas and AlterClientQuotas (KIP-546), of users, client ids and addresses.

Any broker serves both APIs, because all brokers follow the change notifications. Writes are conditional, so concurrent
changes all take effect. A quota of 0 (except for addresses), infinity or NaN is rejected: Kafka accepts it and
throttles no client.
Source: KafkaApis.handleDescribeClientQuotasRequest, ZkAdminManager.describeClientQuotas and alterClientQuotas@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_zk.broker.handlers.error_map import error_code, error_message
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.topics.side_by_side import side_by_side
from kafka_zk.broker.quota.quota_entities import (
    CLIENT_ID,
    IP,
    USER,
    Place,
    changed,
    check_key,
    entity_at,
    place_of,
    value_text,
    values_of,
)
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.network.addresses import address_of
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize, sanitize

_WORDS = {USER: "user", CLIENT_ID: "client", IP: "ip"}
"""Entity types of filters -> names in Kafka's errors."""

_EXACT, _DEFAULT, _SPECIFIED = range(3)

Wanted = dict[str, tuple[int, str | None]]
"""Entity type -> (match type, name of an exact match)."""

DescribeResponse = codec.response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
DescribedEntry = DescribeResponse.EntryData
AlterResponse = codec.response(ApiKey.ALTER_CLIENT_QUOTAS)
AlteredEntry = AlterResponse.EntryData
AlteredEntity = AlteredEntry.EntityData


async def describe(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return the entities that match the filter, with their quotas, or an error if the filter is invalid."""
    try:
        if not services.authorizer.authorize(context, Operation.DESCRIBE_CONFIGS, CLUSTER):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        wanted = _wanted(request.components)
    except ApiError as error:
        return DescribeResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = []
    turns = ResponseTurns(services.clock, context)
    for entity_type in ("users", "clients", "ips"):
        names = await _names(services, entity_type, wanted, is_strict=request.strict)
        for start in range(0, len(names), READS_AT_ONCE):
            some = names[start : start + READS_AT_ONCE]
            stored = await services.configs.synced_entities(entity_type, some)
            async for name, properties in turns.each(stored.items()):
                place = Place(entity_type, name)
                values = values_of(place, properties)
                if values and _matches(place, wanted, is_strict=request.strict):
                    entries.append(_described(place, values))
    return DescribeResponse(entries=entries)


def _wanted(components: Sequence[Any]) -> Wanted:
    for component in components:
        is_known = component.match_type in (_EXACT, _DEFAULT, _SPECIFIED)
        if not is_known or (component.match_type == _EXACT and component.match is None):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    wanted: Wanted = {}
    for component in components:
        entity_type = component.entity_type
        if not entity_type:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in _WORDS:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported")
        if entity_type in wanted:
            word = _WORDS[entity_type]
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate {word} filter component entity type")
        wanted[entity_type] = component.match_type, component.match
    if IP in wanted and len(wanted) > 1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return wanted


async def _names(services: Services, entity_type: str, wanted: Wanted, *, is_strict: bool) -> list[str]:
    """The names that may match; others are not read."""
    if entity_type == "users":
        names = await _names_of(services, "users", wanted.get(USER)) if CLIENT_ID not in wanted else []
        if IP in wanted or (is_strict and len(wanted) < 2):
            return names if IP not in wanted else []
        user, client = _only_name(wanted.get(USER)), _only_name(wanted.get(CLIENT_ID))
        if user is not None and client is not None:
            return [f"{user}/clients/{client}"]
        return names + await services.configs.names_of_clients_of_users()
    own, others = (CLIENT_ID, (USER, IP)) if entity_type == "clients" else (IP, (USER, CLIENT_ID))
    if any(other in wanted for other in others) or (is_strict and own not in wanted):
        return []
    return await _names_of(services, entity_type, wanted.get(own))


async def _names_of(services: Services, entity_type: str, match: tuple[int, str | None] | None) -> list[str]:
    only = _only_name(match)
    return await services.configs.entity_names(entity_type) if only is None else [only]


def _only_name(match: tuple[int, str | None] | None) -> str | None:
    """The encoded name if the filter allows only one, otherwise None."""
    if match is None or match[0] == _SPECIFIED:
        return None
    return DEFAULT_ENTITY if match[0] == _DEFAULT or match[1] is None else sanitize(match[1])


def _matches(place: Place, wanted: Wanted, *, is_strict: bool) -> bool:
    entity = entity_at(place)
    for entity_type, (match_type, name) in wanted.items():
        if entity_type not in entity:
            return False
        if match_type != _SPECIFIED and entity[entity_type] != (None if match_type == _DEFAULT else name):
            return False
    return not is_strict or entity.keys() == wanted.keys()


def _described(place: Place, values: Mapping[str, float]) -> Any:
    return DescribedEntry(
        entity=[
            DescribedEntry.EntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in entity_at(place).items()
        ],
        values=[DescribedEntry.ValueData(key=key, value=value) for key, value in values.items()],
    )


async def alter(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Return a result for each entity; of a repeated entity, the last entry applies."""
    is_allowed = services.authorizer.authorize(context, Operation.ALTER_CONFIGS, CLUSTER)
    entries = {tuple((each.entity_type, each.entity_name) for each in entry.entity): entry for entry in request.entries}
    outcomes = await side_by_side(
        services.clock,
        (
            _alter(services, entity, entry.ops, is_allowed=is_allowed, validate_only=request.validate_only)
            for entity, entry in entries.items()
        ),
    )
    return AlterResponse(
        entries=[
            AlteredEntry(
                error_code=ErrorCode.NONE if outcome is None else error_code(outcome),
                error_message=None if outcome is None else error_message(outcome),
                entity=[AlteredEntity(entity_type=entity_type, entity_name=name) for entity_type, name in entity],
            )
            for entity, outcome in zip(entries, outcomes, strict=True)
        ]
    )


async def _alter(
    services: Services,
    entity: Sequence[tuple[str, str | None]],
    operations: Sequence[Any],
    *,
    is_allowed: bool,
    validate_only: bool,
) -> None:
    if not is_allowed:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    place = place_of(entity)
    if place.entity_type == "ips" and place.name != DEFAULT_ENTITY:
        address = desanitize(place.name)
        if await services.replicas.run_in_thread(lambda: address_of(address)) is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{place.name} is not a valid IP or resolvable host.")
    changes: dict[str, str | None] = {}
    for each in operations:
        check_key(place, each.key)
        changes[each.key] = None if each.remove else value_text(place, each.key, each.value)
    if not validate_only:
        await services.configs.update_entity(
            place.entity_type, place.name, lambda present: changed(present, changes), removes_empty=True
        )
