"""Starts the configured support for tokens. Imports its modules only if needed."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafka_zk.base.events import EventSource
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.security.listener_security import ListenerSecurity

if TYPE_CHECKING:
    from kafka_zk.broker.security.delegation_tokens import DelegationTokens
    from kafka_zk.broker.security.token_keys import TokenKeys


async def start_delegation_tokens(
    config: KafkaConfig, machine: Machine, client: RegistryClient, events: EventSource, credentials: ScramCredentials
) -> "DelegationTokens | None":
    """All delegation tokens, valid for logins from now on; None without a secret. Raises: RegistryError."""
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


async def fetch_token_keys(listeners: Iterable[ListenerSecurity], machine: Machine) -> "list[TokenKeys]":
    """Fetchers of OAuth providers' keys, which verify OAUTHBEARER tokens. Each has made its first attempt."""
    fetching = []
    for listener in listeners:
        if listener.sasl is not None and listener.sasl.jwks is not None:
            from kafka_zk.broker.security.token_keys import TokenKeys
            from kafka_zk.security.signed_tokens import SignedTokens

            tokens = listener.sasl.tokens
            assert isinstance(tokens, SignedTokens), "they need keys"
            fetching.append(TokenKeys(listener.sasl.jwks, tokens, machine.clock, machine.run_in_thread))
    for keys in fetching:
        await keys.start()
    return fetching
