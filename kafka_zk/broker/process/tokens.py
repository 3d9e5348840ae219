"""The tokens that a broker's configuration asks for: what they need is imported only then."""

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


async def fetch_token_keys(listeners: Iterable[ListenerSecurity], machine: Machine) -> "list[TokenKeys]":
    """What fetches the keys of OAuth providers, with which tokens of OAUTHBEARER are verified; each has tried once."""
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
