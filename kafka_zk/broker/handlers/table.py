"""The handler of each API, and dispatching.

Handlers of frequent requests (Produce, Fetch, OffsetCommit, group members, transactional producers) work on bytes;
others get a decoded request and return a message, or its bytes.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from kafka_zk.broker.handlers.api_versions import ApiVersionsHandler
from kafka_zk.broker.handlers.configs import alter_configs, describe_configs, incremental_alter_configs
from kafka_zk.broker.handlers.data import (
    alter_replica_log_dirs,
    delete_records,
    describe_log_dirs,
    describe_producers,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from kafka_zk.broker.handlers.decoded import MessageHandler, answer
from kafka_zk.broker.handlers.groups import (
    consumer_group_protocol,
    delete_groups,
    describe_groups,
    find_coordinator,
    group_membership,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    txn_offset_commit,
)
from kafka_zk.broker.handlers.inter_broker import (
    allocate_producer_ids,
    alter_partition,
    controlled_shutdown,
    leader_and_isr,
    stop_replica,
    update_metadata,
)
from kafka_zk.broker.handlers.security import acls, client_quotas, delegation_tokens, sasl, user_scram_credentials
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.topics import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    elect_leaders,
    list_partition_reassignments,
    metadata,
    update_features,
)
from kafka_zk.broker.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from kafka_zk.broker.quota.client_quotas import Clients
from kafka_zk.broker.quota.enforcement import EXEMPT, ExemptAnswer
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader

Response = list[Part] | None
RawHandler = Callable[[Services, RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, Response]]

Wrap = Callable[[RawHandler], RawHandler]
"""Takes an API's handler and returns a handler to use instead."""

RAW_HANDLERS: dict[int, RawHandler] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.SYNC_GROUP: group_membership.sync,
    ApiKey.HEARTBEAT: group_membership.heartbeat,
    ApiKey.JOIN_GROUP: group_membership.join,
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
    ApiKey.END_TXN: end_txn.handle,
}

MESSAGE_HANDLERS: dict[int, MessageHandler] = {
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: stop_replica.handle,
    ApiKey.UPDATE_METADATA: update_metadata.handle,
    ApiKey.CONTROLLED_SHUTDOWN: controlled_shutdown.handle,
    ApiKey.ALTER_PARTITION: alter_partition.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
    ApiKey.OFFSET_FETCH: offset_fetch.handle,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.handle,
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.LEAVE_GROUP: group_membership.leave,
    ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
    ApiKey.LIST_GROUPS: list_groups.handle,
    ApiKey.DELETE_GROUPS: delete_groups.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_protocol.heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_protocol.describe,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
    ApiKey.LIST_TRANSACTIONS: list_transactions.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ELECT_LEADERS: elect_leaders.handle,
    ApiKey.UPDATE_FEATURES: update_features.handle,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.SASL_HANDSHAKE: sasl.handshake,
    ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
    ApiKey.DESCRIBE_ACLS: acls.describe,
    ApiKey.CREATE_ACLS: acls.create,
    ApiKey.DELETE_ACLS: acls.delete,
    ApiKey.CREATE_DELEGATION_TOKEN: delegation_tokens.create,
    ApiKey.RENEW_DELEGATION_TOKEN: delegation_tokens.renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: delegation_tokens.expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: delegation_tokens.describe,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.describe,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.alter,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: user_scram_credentials.describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: user_scram_credentials.alter,
}

OFFERED_VERSIONS: dict[ApiKey, tuple[int, int]] = {
    ApiKey(key): BROKER_VERSIONS[ApiKey(key)] for key in (*RAW_HANDLERS, *MESSAGE_HANDLERS, ApiKey.API_VERSIONS)
}
"""The versions of Kafka 3.9.1, for every API with a handler."""

MESSAGE_HANDLERS[ApiKey.API_VERSIONS] = ApiVersionsHandler(OFFERED_VERSIONS).handle


def _limited_fetch(clients: Clients) -> RawHandler:
    def handle(
        services: Services, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, Response]:
        return fetch.handle(services, context, header, body, clients[context.principal, header.client_id].fetch)

    return handle


def _of_brokers(handler: MessageHandler) -> RawHandler:
    def handle(
        services: Services, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, Response]:
        is_exempt = _acts_for_the_cluster(services, context, header.api_key)
        answering = answer(services, context, header, body, handler)
        return _exempt(answering) if is_exempt else answering

    return handle


def _acts_for_the_cluster(services: Services, context: RequestContext, api_key: int) -> bool:
    """True if the sender may send requests of brokers. If not, the request counts towards the sender's quota, as in
    Kafka (RequestHandlerHelper.handleError@3.9)."""
    authorizer = services.authorizer
    if authorizer.may(context, Operation.CLUSTER_ACTION, CLUSTER):
        return True
    takes_alter = api_key == ApiKey.WRITE_TXN_MARKERS and authorizer.has_rules
    return takes_alter and authorizer.may(context, Operation.ALTER, CLUSTER)


def _decoding(handler: MessageHandler) -> RawHandler:
    def handle(
        services: Services, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, Response]:
        return answer(services, context, header, body, handler)

    return handle


async def _exempt(answering: Coroutine[Any, Any, list[Part]]) -> ExemptAnswer:
    return ExemptAnswer(await answering)


class Dispatcher:
    """Dispatches all connections' requests; the network layer passes only offered APIs and versions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._usual_handlers = RAW_HANDLERS | {key: _of_brokers(MESSAGE_HANDLERS[key]) for key in EXEMPT}
        self._wraps: dict[int, Wrap] = {}
        self._raw_handlers = dict(self._usual_handlers)
        self._raw_handler = self._raw_handlers.get

    def limit_fetches(self, clients: Clients | None) -> None:
        """Apply the fetch quotas in ``clients``; None: no quotas."""
        self._usual_handlers[ApiKey.FETCH] = fetch.handle if clients is None else _limited_fetch(clients)
        self._install(ApiKey.FETCH)

    def wrap(self, api_key: int, wrap: Wrap | None) -> None:
        """Wrap the handler of an API, which replaces an earlier wrapper; None removes it. Other APIs are not
        affected."""
        self._wraps.pop(api_key, None)
        if wrap is not None:
            self._wraps[api_key] = wrap
        self._install(api_key)

    def _install(self, api_key: int) -> None:
        usual, wrap = self._usual_handlers.get(api_key), self._wraps.get(api_key)
        if wrap is not None:
            self._raw_handlers[api_key] = wrap(usual or _decoding(MESSAGE_HANDLERS[api_key]))
        elif usual is not None:
            self._raw_handlers[api_key] = usual
        else:
            self._raw_handlers.pop(api_key, None)

    def dispatch(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, Response]:
        """The parts of the response; None if there is no response. Raises: ProtocolError to close the connection."""
        raw = self._raw_handler(header.api_key)
        if raw is not None:
            return raw(self._services, context, header, body)
        return answer(self._services, context, header, body, MESSAGE_HANDLERS[header.api_key])
