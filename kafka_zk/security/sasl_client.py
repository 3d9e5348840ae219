"""The client's side of each SASL mechanism, as a generator.

It yields each message, receives the broker's response, and ends after the last response.
"""

from collections.abc import Generator
from random import Random

from kafka_zk.security.client_security import SaslSettings

SaslClient = Generator[bytes, bytes, None]


def sasl_client(settings: SaslSettings, random: Random, host: str) -> SaslClient:
    """The messages of one login to the broker at ``host``. This may block if ``settings.may_wait``.

    Raises TokenUnavailable; TicketUnavailable and SaslAuthenticationFailed, also from the generator.
    """
    if settings.mechanism == "OAUTHBEARER":
        from kafka_zk.security.oauthbearer import oauthbearer_client
        from kafka_zk.security.token_sources import current_token

        return oauthbearer_client(current_token(settings.tokens))
    if settings.kerberos is not None:
        from kafka_zk.security.kerberos import gssapi_client

        return gssapi_client(settings.kerberos, host)
    if settings.mechanism == "PLAIN":
        from kafka_zk.security.plain import plain_client

        return plain_client(settings.username, settings.password.value)
    from kafka_zk.security.scram import NONCE_BITS, nonce_text, scram_client

    nonce = nonce_text(random.getrandbits(NONCE_BITS))
    return scram_client(
        settings.mechanism, settings.username, settings.password.value, nonce, is_token=settings.is_token
    )
