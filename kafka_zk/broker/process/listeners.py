"""A broker's listeners, not bound yet, and the limits that they share."""

import resource

from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.network.connection_quotas import ConnectionQuotas, descriptors_for_connections
from kafka_zk.network.connection_settings import ConnectionSettings, Dispatch
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.network.read_ahead import ReadAhead


def connection_quotas(parts: BrokerParts) -> ConnectionQuotas:
    """The logs' open files leave the connections the rest of the process's descriptors."""
    config = parts.services.config
    max_open_files = parts.services.replicas.logs.pool.max_open_files
    return ConnectionQuotas(
        config.max_connections,
        config.max_connections_per_ip,
        config.connections_per_ip_overrides,
        descriptors_for_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0], max_open_files),
    )


def new_listeners(
    machine: Machine, parts: BrokerParts, quotas: ConnectionQuotas, stats: RequestStats | None
) -> list[Listener]:
    """One for each of ``listeners``; ``stats`` counts their requests."""
    config = parts.services.config
    dispatch: Dispatch = Dispatcher(parts.services).dispatch
    if stats is not None:
        dispatch = stats.measure(dispatch)
    return [
        Listener(
            machine.reactor,
            ListenerSettings(
                host=wanted.host,
                port=wanted.port,
                backlog=config.socket_listen_backlog_size,
                send_buffer_size_bytes=config.socket_send_buffer_bytes,
                receive_buffer_size_bytes=config.socket_receive_buffer_bytes,
                max_idle_ms=config.connections_max_idle_ms,
                inter_broker=_is_between_brokers(config, wanted.name),
            ),
            ConnectionSettings(
                clock=machine.clock,
                listener_name=wanted.name,
                dispatch=dispatch,
                security_protocol=wanted.security_protocol,
                versions=OFFERED_VERSIONS,
                max_request_size_bytes=config.socket_request_max_bytes,
                read_ahead=ReadAhead(machine.run_in_thread),
                memory=parts.memory,
                between_brokers=_is_between_brokers(config, wanted.name),
            ),
            quotas,
            machine.open_port,
        )
        for wanted in config.listener_list
    ]


def _is_between_brokers(config: KafkaConfig, listener: str) -> bool:
    """Whether clients have listeners of their own, other than this one."""
    return listener == config.inter_broker_listener and len(config.listener_list) > 1
