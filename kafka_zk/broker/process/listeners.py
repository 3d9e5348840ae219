"""Creates a broker's unbound listeners, and their common limits."""

import resource
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.config.kafka_config import Listener as WantedListener
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.process.authorization import with_api_key
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.network.connection_quotas import UNLIMITED, ConnectionQuotas, descriptors_for_connections
from kafka_zk.network.connection_settings import ConnectionSettings, Dispatch, Handshake
from kafka_zk.network.listener import Listener, ListenerSettings, OpenPort
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.security.distinguished_name import subject
from kafka_zk.security.listener_security import ListenerSecurity, ListenerTls

if TYPE_CHECKING:
    from kafka_zk.security.listener_sasl import ListenerSasl


def connection_quotas(parts: BrokerParts) -> ConnectionQuotas:
    """The limits of connections, which may use the file descriptors that the logs do not need."""
    config = parts.services.config
    rates = parts.connection_rates
    rates.set_limits(config.max_connection_creation_rate, config.listener_creation_rates)
    parts.client_quotas.limit_addresses_by(rates.set_address_limit)
    max_open_files = parts.services.replicas.logs.pool.max_open_files
    return ConnectionQuotas(
        config.max_connections,
        config.max_connections_per_ip,
        config.connections_per_ip_overrides,
        descriptors_for_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0], max_open_files),
        rates,
    )


class NewListener(Protocol):
    def __call__(self, wanted: WantedListener, security: ListenerSecurity) -> Listener: ...


def listener_maker(
    machine: Machine, parts: BrokerParts, quotas: ConnectionQuotas, stats: RequestStats | None
) -> NewListener:
    """Return a function that creates listeners. ``stats``: counts their requests."""
    parts.services.client_quotas.limit_fetches_by(parts.dispatcher.limit_fetches)
    dispatch: Dispatch = with_api_key(parts.services.authorizer, parts.dispatcher.dispatch)
    if stats is not None:
        dispatch = stats.measure(dispatch)
    return partial(_new_listener, machine, parts, quotas, dispatch)


def _new_listener(
    machine: Machine,
    parts: BrokerParts,
    quotas: ConnectionQuotas,
    dispatch: Dispatch,
    wanted: WantedListener,
    security: ListenerSecurity,
) -> Listener:
    config = parts.services.config
    logins = parts.logins_at(wanted.name)
    settings = ConnectionSettings(
        clock=machine.clock,
        listener_name=wanted.name,
        dispatch=dispatch,
        security_protocol=wanted.security_protocol,
        versions=OFFERED_VERSIONS,
        max_request_size_bytes=config.socket_request_max_bytes,
        handshake=None if security.sasl is None else _logins(machine, parts, dispatch, security.sasl, logins),
        principal_of=_principals(security, logins),
        read_ahead=ReadAhead(machine.run_in_thread),
        memory=parts.memory,
        between_brokers=is_between_brokers(config, wanted.name),
    )
    parts.services.client_quotas.attach(settings)
    return Listener(
        machine.reactor,
        ListenerSettings(
            host=wanted.host,
            port=wanted.port,
            backlog=config.socket_listen_backlog_size,
            send_buffer_size_bytes=config.socket_send_buffer_bytes,
            receive_buffer_size_bytes=config.socket_receive_buffer_bytes,
            max_idle_ms=config.connections_max_idle_ms,
            inter_broker=is_between_brokers(config, wanted.name),
            max_connections=max_connections(config, wanted.name),
        ),
        settings,
        quotas,
        machine.open_port if security.tls is None else _tls_port(security.tls, logins),
    )


def _tls_port(tls: ListenerTls, logins: LoginStats) -> OpenPort:
    from kafka_zk.network.tls_port import TlsPort  # imported here, because it loads OpenSSL
    from kafka_zk.security.tls import server_context

    return partial(TlsPort, server_context(tls.settings, tls.client_auth), logins.login_failed)


def _principals(security: ListenerSecurity, logins: LoginStats) -> Callable[[bytes | None], str | None] | None:
    """Maps certificates to principals; None with SASL, where the login decides."""
    tls = security.tls
    if tls is None or security.sasl is not None:
        return None
    mapper = tls.mapper

    def principal_of(certificate: bytes | None) -> str | None:
        try:
            user = "ANONYMOUS" if certificate is None else mapper.user(subject(certificate))
        except ValueError:
            logins.login_failed()
            raise
        if user is None:
            logins.login_failed()
            return None
        logins.logged_in()
        return f"User:{user}"

    return principal_of


def _logins(
    machine: Machine, parts: BrokerParts, dispatch: Dispatch, sasl: "ListenerSasl", stats: LoginStats
) -> Callable[[], Handshake]:
    from kafka_zk.broker.process.logins import logins  # imported here, because only SASL needs it

    return logins(machine, parts, dispatch, sasl, stats)


def is_between_brokers(config: KafkaConfig, listener: str) -> bool:
    """True for the inter-broker listener, unless it is the only one."""
    return listener == config.inter_broker_listener and len(config.listener_list) > 1


def max_connections(config: KafkaConfig, listener: str) -> int:
    """The maximum number of connections of this listener alone."""
    return config.listener_max_connections.get(listener, UNLIMITED)
