"""The delegation tokens of a broker whose configuration has a secret for them; imported only then."""

from typing import TYPE_CHECKING

from kafka_zk.base.events import EventSource
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.registry.client.client import RegistryClient

if TYPE_CHECKING:
    from kafka_zk.broker.security.delegation_tokens import DelegationTokens


async def start_delegation_tokens(
    config: KafkaConfig, machine: Machine, client: RegistryClient, events: EventSource, credentials: ScramCredentials
) -> "DelegationTokens | None":
    """All tokens, with which clients may log in from now on. Raises: RegistryError."""
    if config.delegation_token_secret is None:
        return None
    from kafka_zk.broker.security.delegation_token_rules import TokenLimits
    from kafka_zk.broker.security.delegation_tokens import DelegationTokens
    from kafka_zk.registry.delegation_tokens import DelegationTokenRegistry

    limits = TokenLimits(config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms)
    tokens = DelegationTokens(
        config.delegation_token_secret.encode(),
        limits,
        DelegationTokenRegistry(client, events),
        client,
        machine.clock,
        machine.random,
        credentials.invented,
    )
    await tokens.start()
    credentials.find_token = tokens.find
    return tokens
