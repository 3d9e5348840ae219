"""Asks brokers and controllers for facts, with requests that change nothing.

ApiVersions needs no permission. Other requests may be refused; the facts that they ask for are then unknown.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.internet.error import ConnectionRefusedError as Refused

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.connections import Connections
from kafka_zk.clients.connection.errors import AuthenticationError, BrokerError, KafkaError, broker_error
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.migration.facts import ApiVersions, Configs, Fact, Node, Quorum, Unknown
from kafka_zk.migration.metadata.log_fetch import fetch_log
from kafka_zk.migration.metadata.replay import MetadataLog, UnreadableMetadata
from kafka_zk.network.client import Connect, KafkaConnection, connect
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError

T = TypeVar("T")
Address = tuple[str, int]

_BROKER_RESOURCE = 4
_DEFAULT_CONFIG = 5
_CONTROLLER_ENDPOINTS = 2
_ANY = 1
_ENDPOINTS_SINCE = 2
"""The first version of DescribeQuorum with the voters' addresses (3.9)."""
_FIRST_WITH_TAGS = 3
"""The first version of ApiVersions with tagged fields (2.4)."""
_METADATA_VERSION = "metadata.version"
_METADATA_TOPIC = "__cluster_metadata"
_NO_QUORUM = Unknown("no controller of KRaft could be asked for its quorum", "running controllers that can be reached")
_UNREACHED = (ConnectError, ConnectionClosed, OSError, ProtocolError, KafkaError)


class NodeCollector:
    """Asks nodes, on the reactor thread. Each request takes at most the timeouts of ``config``."""

    def __init__(self, reactor: Reactor, config: ClientConfig, connect: Connect = connect) -> None:
        self._reactor = reactor
        self._config = config
        self._connect = connect
        self._connections = Connections(reactor, config, connect)

    async def close(self) -> None:
        self._connections.close()

    async def addresses(self) -> Fact[Mapping[int, Address]]:
        """Id -> address of the live brokers."""
        last: Unknown | None = None
        for address in self._config.bootstrap_addresses:
            answer = await self._fact("the brokers", address, self._metadata(address))
            if not isinstance(answer, Unknown):
                return answer
            last = answer
        assert last is not None
        return last

    async def _metadata(self, address: Address) -> dict[int, Address]:
        message = codec.request(ApiKey.METADATA)(topics=[])
        answer = await self._ask(address, ApiKey.METADATA, message)
        return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}

    async def broker(self, node_id: int, address: Address) -> Node:
        name = f"broker {node_id}"
        api, refusal = await self._api(name, address)
        return Node(node_id, api, refusal or await self._configs(name, node_id, address))

    async def controller(self, node_id: int, address: Address) -> Node:
        name = f"controller {node_id}"
        api, refusal = await self._api(name, address)
        if refusal is not None:
            return Node(node_id, api, refusal, refusal, refusal)
        return Node(
            node_id,
            api,
            await self._configs(name, node_id, address),
            await self._fact(f"{name} for its cluster id", address, self._cluster_id(address)),
            await self._fact(f"{name} for its authorizer", address, self._has_authorizer(address)),
        )

    async def voters(self, addresses: Iterable[Address]) -> Fact[Mapping[int, Address]]:
        """Id -> address of the controllers of a dynamic quorum, from its leader."""
        refused: Unknown = _NO_QUORUM
        for address in addresses:
            answer = await self._fact("a controller for its quorum", address, self._endpoints(address))
            if isinstance(answer, Unknown):
                refused = answer
            elif answer:
                return answer
        return refused

    async def quorum(self, addresses: Mapping[int, Address]) -> Fact[Quorum]:
        """The quorum, which only its leader can describe."""
        refused: Unknown = _NO_QUORUM
        for node_id, address in addresses.items():
            answer = await self._fact(f"controller {node_id} for its quorum", address, self._quorum(address))
            if isinstance(answer, Quorum):
                return answer
            refused = answer or refused
        return refused

    async def metadata_log(self, addresses: Mapping[int, Address]) -> Fact[MetadataLog]:
        """``addresses``: id -> address of the controllers."""
        refused: Unknown = _NO_QUORUM
        for node_id, address in addresses.items():
            what = f"controller {node_id} for the metadata log"
            answer = await self._fact(what, address, fetch_log(self._connected, addresses, node_id))
            if isinstance(answer, MetadataLog):
                return answer
            refused = answer
        return refused

    # --- requests ---

    async def _api(self, name: str, address: Address) -> tuple[Fact[ApiVersions], Unknown | None]:
        """The node's versions, even if it refuses this client's login; the second value then says why."""
        answer = await self._fact(name, address, self._api_versions(address))
        if not isinstance(answer, Unknown):
            return answer, None
        without_login = await self._fact(name, address, self._api_versions_without_login(address))
        return (answer if isinstance(without_login, Unknown) else without_login), answer

    async def _api_versions(self, address: Address) -> ApiVersions:
        return _understood(await self._ask(address, ApiKey.API_VERSIONS, _api_versions_request()))

    async def _api_versions_without_login(self, address: Address) -> ApiVersions:
        """A listener with SASL responds to one ApiVersions request before the login."""
        connection = await self._connect(
            self._reactor, *address, self._config.client_id, self._config.socket_connection_setup_timeout_ms / 1000,
            request_timeout_s=self._config.request_timeout_ms / 1000, negotiate=False, security=self._config.security,
        )  # fmt: skip
        try:
            request = _api_versions_request()
            return _understood(await connection.request(ApiKey.API_VERSIONS, request, version=_FIRST_WITH_TAGS))
        finally:
            connection.disconnect()

    async def _configs(self, name: str, node_id: int, address: Address) -> Fact[Configs]:
        return await self._fact(f"{name} for its configuration", address, self._described(node_id, address))

    async def _described(self, node_id: int, address: Address) -> dict[str, str | None]:
        request = codec.request(ApiKey.DESCRIBE_CONFIGS)
        resource = request.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(node_id), configuration_keys=None
        )
        answer = await self._ask(address, ApiKey.DESCRIBE_CONFIGS, request(resources=[resource]))
        result = _only(answer.results)
        _check(result.error_code, "describing its configuration")
        return {
            entry.name: entry.value for entry in result.configs
            if entry.value is not None or not (entry.is_default or entry.config_source == _DEFAULT_CONFIG)
        }  # fmt: skip

    async def _cluster_id(self, address: Address) -> str:
        message = codec.request(ApiKey.DESCRIBE_CLUSTER)(endpoint_type=_CONTROLLER_ENDPOINTS)
        answer = await self._ask(address, ApiKey.DESCRIBE_CLUSTER, message)
        _check(answer.error_code, "describing the cluster")
        cluster_id: str = answer.cluster_id
        return cluster_id

    async def _has_authorizer(self, address: Address) -> bool:
        """SECURITY_DISABLED means that the node has no authorizer; a refusal means that it has one."""
        message = codec.request(ApiKey.DESCRIBE_ACLS)(
            resource_type_filter=_ANY, resource_name_filter=None, pattern_type_filter=_ANY, principal_filter=None,
            host_filter=None, operation=_ANY, permission_type=_ANY,
        )  # fmt: skip
        answer = await self._ask(address, ApiKey.DESCRIBE_ACLS, message)
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return True
        if answer.error_code == ErrorCode.SECURITY_DISABLED:
            return False
        _check(answer.error_code, "describing ACLs")
        return True

    async def _endpoints(self, address: Address) -> dict[int, Address]:
        """Empty if the node is a follower."""
        answer = await self._described_quorum(address, _ENDPOINTS_SINCE)
        return {} if answer is None else {
            node.node_id: (node.listeners[0].host, node.listeners[0].port) for node in answer.nodes if node.listeners
        }  # fmt: skip

    async def _described_quorum(self, address: Address, version: int) -> Any:
        """None if the node does not know this version of the request."""
        connection = await self._connected(address)
        if connection.versions.get(ApiKey.DESCRIBE_QUORUM, (0, -1))[1] < version:
            return None
        request = codec.request(ApiKey.DESCRIBE_QUORUM)
        topic = request.TopicData(
            topic_name=_METADATA_TOPIC, partitions=[request.TopicData.PartitionData(partition_index=0)]
        )
        answer = await connection.request(ApiKey.DESCRIBE_QUORUM, request(topics=[topic]), version=version)
        _check(answer.error_code, "describing the quorum")
        return answer

    async def _quorum(self, address: Address) -> Quorum | None:
        """None if the node is a follower."""
        answer = await self._described_quorum(address, 0)
        if answer is None:
            return None
        described = _only(_only(answer.topics).partitions)
        if described.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return None
        _check(described.error_code, "describing the quorum")
        return Quorum(frozenset(each.replica_id for each in described.observers), described.leader_id)

    async def _connected(self, address: Address) -> KafkaConnection:
        return await self._connections.get(*address, "")

    async def _ask(self, address: Address, api_key: ApiKey, message: Any) -> Any:
        connection = await self._connected(address)
        return await connection.request(api_key, message)

    async def _fact(self, what: str, address: Address, answer: Awaitable[T]) -> Fact[T]:
        where = f"{what} ({address[0]}:{address[1]})"
        try:
            return await answer
        except AuthenticationError as error:
            return Unknown(f"{where}: {error}", "--command-config with a login that this listener accepts")
        except BrokerError as error:
            return Unknown(f"{where}: {error}", _permission(error))
        except ApiError as error:
            return Unknown(f"{where}: {error}", "a newer release of this node")
        except UnreadableMetadata as error:
            return Unknown(f"{where}: {error}", "a controller whose metadata log can be read")
        except _UNREACHED as error:
            return Unknown(f"{where} cannot be asked: {_reason(error)}", "a node that responds")


def _reason(error: Exception) -> str:
    """The error in one phrase. Twisted's messages for connection errors repeat themselves, and end with a full stop."""
    if isinstance(error, Refused):
        return "the connection was refused"
    return str(error).rstrip(".") or type(error).__name__


def _api_versions_request() -> Any:
    return codec.request(ApiKey.API_VERSIONS)(client_software_name="kafka-zk", client_software_version="migration")


def _understood(answer: Any) -> ApiVersions:
    _check(answer.error_code, "asking for its API versions")
    levels = {each.name: each.max_version_level for each in answer.finalized_features or ()}
    return ApiVersions(
        {each.api_key: each.max_version for each in answer.api_keys},
        bool(answer.zk_migration_ready),
        levels.get(_METADATA_VERSION),
    )


def _only(listed: Sequence[Any]) -> Any:
    """Raises ProtocolError."""
    if len(listed) != 1:
        raise ProtocolError(f"the response has {len(listed)} results instead of one")
    return listed[0]


def _check(code: int, doing: str) -> None:
    if code != ErrorCode.NONE:
        raise broker_error(code, doing)


def _permission(error: BrokerError) -> str:
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return "--command-config of a user who may do this (docs/how-to/migrate.md lists the permissions)"
    return "a node that responds"
