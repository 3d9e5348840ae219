"""Starts the configured support for tokens, with imports on demand."""

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
    """Read all delegation tokens, which are then valid for logins. Returns None without a secret. Raises:
    RegistryError."""
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


class ListenerTokenKeys:
    """OAuth providers' keys, which verify tokens, fetched for each listener until ``forget`` or ``close``."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._by_listener: dict[str, TokenKeys] = {}
        self._is_closed = False

    async def fetch(self, name: str, listener: ListenerSecurity) -> None:
        """Returns after the first attempt, even if it fails. Does nothing without a provider, and after ``close``."""
        if self._is_closed or listener.sasl is None or listener.sasl.jwks is None:
            return
        from kafka_zk.broker.security.token_keys import TokenKeys
        from kafka_zk.security.signed_tokens import SignedTokens

        machine, tokens = self._machine, listener.sasl.tokens
        assert isinstance(tokens, SignedTokens), "they need keys"
        self.forget(name)
        keys = self._by_listener[name] = TokenKeys(listener.sasl.jwks, tokens, machine.clock, machine.run_in_thread)
        await keys.start()

    def forget(self, name: str) -> None:
        keys = self._by_listener.pop(name, None)
        if keys is not None:
            keys.close()

    def close(self) -> None:
        """Stop all fetches, even those in progress."""
        self._is_closed = True
        for name in list(self._by_listener):
            self.forget(name)
