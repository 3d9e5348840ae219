"""The dependencies of a broker's parts: identity, configuration, logs and machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_zk.base.events import EventSource, Observe
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.security import BrokerSecurity
from kafka_zk.broker.security.authorizer import Authorizer
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import ControlledByKRaft
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.storage.manager.log_manager import LogManager

if TYPE_CHECKING:  # other modules import this at run time if needed
    from kafka_zk.broker.security.delegation_tokens import DelegationTokens


@dataclass(frozen=True, slots=True)
class Foundation:
    """The dependencies of ``BrokerParts``.

    ``broker_epoch``: see ``Services``. ``config``: the configuration at the start. ``logs``: already open. ``observe``:
    called with every event, including those of ``events``. ``on_kraft``: see ``Controller``. ``credentials``: those
    of SCRAM users, if a listener needs them. ``authorizer``: already started. ``delegation_tokens``: already loaded;
    None without a secret.
    """

    broker_id: int
    cluster_id: str
    broker_epoch: Callable[[], int]
    config: KafkaConfig
    dynamic_config: DynamicBrokerConfig
    configs: ConfigRegistry
    logs: LogManager
    client: RegistryClient
    machine: Machine
    events: EventSource
    observe: Observe
    on_kraft: Callable[[ControlledByKRaft], None]
    security: BrokerSecurity
    credentials: ScramCredentials
    authorizer: Authorizer
    delegation_tokens: "DelegationTokens | None"
