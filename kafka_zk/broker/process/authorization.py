"""Starts the configured authorizer. Imports only what it needs."""

from collections.abc import Coroutine
from typing import Any

from kafka_zk.base.events import EventSource
from kafka_zk.broker.config.authorizer_class import ACL_AUTHORIZER, super_users
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer
from kafka_zk.network.connection_settings import Dispatch
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.client.client import RegistryClient


async def start_authorizer(
    config: KafkaConfig, machine: Machine, client: RegistryClient, events: EventSource
) -> Authorizer:
    """Start the authorizer. Raises: InvalidBrokerConfig, RegistryError."""
    if not config.authorizer_class_name:
        return NoAuthorizer(config.broker_listeners)
    from kafka_zk.broker.security.denials import Denials

    denials = Denials(machine.clock, events)
    if config.authorizer_class_name != ACL_AUTHORIZER:
        from kafka_zk.broker.security.python_authorizer import CannotLoad, load

        try:
            return load(config.authorizer_class_name, config.properties, denials)
        except CannotLoad as error:
            raise InvalidBrokerConfig(str(error)) from None
    from kafka_zk.broker.security.acl_authorizer import AclAuthorizer, warn_if_open
    from kafka_zk.broker.security.acl_rules import AclRules
    from kafka_zk.registry.acls import AclRegistry

    warn_if_open(config.zookeeper_security)
    rules = AclRules(super_users(config.super_users or ""), allow_if_none=config.allow_everyone_if_no_acl_found)
    authorizer = AclAuthorizer(client, AclRegistry(client, events), machine.clock, rules, denials)
    await authorizer.start()
    return authorizer


def with_api_key(authorizer: Authorizer, dispatch: Dispatch) -> Dispatch:
    """Adds each request's API key to its context, for the authorizer."""
    if isinstance(authorizer, NoAuthorizer):
        return dispatch

    def dispatched(
        context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, list[Part] | None]:
        return dispatch(context.for_request(header.api_key), header, body)

    return dispatched
