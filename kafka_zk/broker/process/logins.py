"""Creates logins for listeners with SASL. Imported only if there is one."""

from collections.abc import Callable

from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.broker.security.login_checks import LoginChecks
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.broker.security.sasl_handshake import SaslHandshake, SaslHandshakes
from kafka_zk.network.connection_settings import Dispatch, Handshake
from kafka_zk.security.listener_sasl import ListenerSasl
from kafka_zk.security.sasl_server import SaslListener, SaslServer
from kafka_zk.security.scram import NONCE_BITS, nonce_text

CALLBACKS_AT_ONCE = 4
"""Maximum number of user-defined callbacks at a time. They share the worker threads with fsyncs."""


def logins(
    machine: Machine, parts: BrokerParts, dispatch: Dispatch, sasl: ListenerSasl, stats: LoginStats
) -> Callable[[], Handshake]:
    """The factory of logins, one per connection. ``dispatch`` handles ApiVersions."""
    delay_s = parts.services.config.connection_failed_authentication_delay_ms / 1000
    checks = LoginChecks(machine.run_in_thread, CALLBACKS_AT_ONCE)
    handshakes = SaslHandshakes(machine.clock, dispatch, delay_s, stats, checks)

    def nonce() -> str:
        return nonce_text(machine.random.getrandbits(NONCE_BITS))

    listener = SaslListener(sasl, parts.credentials, nonce, machine.clock.wall_ms)
    return lambda: SaslHandshake(SaslServer(listener), handshakes)
