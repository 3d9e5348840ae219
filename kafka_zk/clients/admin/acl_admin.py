"""Administration of ACLs; ``blocking_admin`` is the version for threads.

Any broker accepts a change and applies it immediately; the others follow within a second.

Source: KafkaAdminClient.java@3.9.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import KafkaError, raise_error_in
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security.acl import Acl, AclFilter, Operation, Pattern, PatternType, Permission, ResourceType

_Describe = codec.request(ApiKey.DESCRIBE_ACLS)
_Create = codec.request(ApiKey.CREATE_ACLS)
_Delete = codec.request(ApiKey.DELETE_ACLS)

AclsByPattern = dict[Pattern, list[Acl]]
EVERYTHING = AclFilter()


class AclAdmin:
    """The ``acls`` of an ``Admin``. Every method may raise BrokerError with Kafka's code: SECURITY_DISABLED without an
    authorizer, CLUSTER_AUTHORIZATION_FAILED."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_acls(self, wanted: AclFilter = EVERYTHING) -> AclsByPattern:
        """The ACLs that match the filter, sorted."""
        answer = await self._cluster.request_any(ApiKey.DESCRIBE_ACLS, _Describe(**_filter_fields(wanted)))
        raise_error_in(answer, "listing ACLs")
        found: AclsByPattern = {}
        for resource in answer.resources:
            acls = found.setdefault(_pattern(resource), [])
            acls += [_acl(each) for each in resource.acls]
        return {pattern: sorted(found[pattern]) for pattern in sorted(found)}

    async def add_acls(self, added: Mapping[Pattern, Iterable[Acl]]) -> None:
        """Add ACLs to the existing ones; returns when a broker has written them all.

        Raises: BrokerError for the first failure; the other ACLs were added.
        """
        wanted = [(pattern, acl) for pattern, acls in added.items() for acl in acls]
        creations = [
            _Create.AclCreation(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                resource_pattern_type=pattern.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for pattern, acl in wanted
        ]
        answer = await self._cluster.request_any(ApiKey.CREATE_ACLS, _Create(creations=creations))
        for (pattern, acl), result in zip(wanted, answer.results, strict=True):
            raise_error_in(result, f"adding {acl} to {pattern}")

    async def remove_acls(self, filters: Iterable[AclFilter]) -> AclsByPattern:
        """Remove the ACLs that match any of the filters, and return them, sorted.

        Raises: BrokerError for the first failure; the other ACLs were removed.
        """
        wanted = [_Delete.DeleteAclsFilter(**_filter_fields(each)) for each in filters]
        answer = await self._cluster.request_any(ApiKey.DELETE_ACLS, _Delete(filters=wanted))
        removed: AclsByPattern = {}
        for result in answer.filter_results:
            raise_error_in(result, "removing ACLs")
            for each in result.matching_acls:
                pattern, acl = _pattern(each), _acl(each)
                raise_error_in(each, f"removing {acl} from {pattern}")
                removed.setdefault(pattern, []).append(acl)
        return {pattern: sorted(removed[pattern]) for pattern in sorted(removed)}


def _filter_fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _pattern(told: Any) -> Pattern:
    try:
        return Pattern(ResourceType(told.resource_type), told.resource_name, PatternType(told.pattern_type))
    except ValueError as error:
        raise KafkaError(f"unknown resource type: {error}") from None


def _acl(told: Any) -> Acl:
    try:
        return Acl(told.principal, told.host, Operation(told.operation), Permission(told.permission_type))
    except ValueError as error:
        raise KafkaError(f"unknown ACL type: {error}") from None
