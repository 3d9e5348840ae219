"""When the keys of OAuth providers are fetched, and until when."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.tokens import ListenerTokenKeys
from kafka_zk.security.listener_security import ListenerSecurity, listener_security
from tests.kafka_zk.network.harness import LocalReactor


@pytest.fixture
def listener(tmp_path: Path) -> ListenerSecurity:
    """A listener with a provider whose keys cannot be fetched, so that the fetch is repeated."""
    prefix = "listener.name.client."
    keys = {
        f"{prefix}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        ),
        f"{prefix}oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "https://127.0.0.1:1/keys",
        f"{prefix}oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
    }
    return listener_security(keys, "CLIENT", "SASL_PLAINTEXT")


def timers(reactor: LocalReactor) -> list[Any]:
    return [call for call in reactor.getDelayedCalls() if "_fetch_soon" in repr(call.func)]


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    made = LocalReactor()
    made.getThreadPool().start()
    yield made
    made.getThreadPool().stop()
    made.close()


def test_keys_are_fetched_until_the_listener_goes(reactor: LocalReactor, listener: ListenerSecurity) -> None:
    keys = ListenerTokenKeys(Machine.of(reactor))
    reactor.result_of(keys.fetch("CLIENT", listener))
    assert len(timers(reactor)) == 1
    keys.forget("CLIENT")
    assert timers(reactor) == []


def test_a_broker_that_stops_during_the_first_fetch_fetches_no_more(
    reactor: LocalReactor, listener: ListenerSecurity
) -> None:
    """During the first fetch the broker has no parts yet, and no listener is bound."""
    keys = ListenerTokenKeys(Machine.of(reactor))
    fetching = ensureDeferred(keys.fetch("CLIENT", listener))
    keys.close()
    reactor.result_of(fetching)
    reactor.result_of(keys.fetch("OTHER", listener))
    assert timers(reactor) == []
