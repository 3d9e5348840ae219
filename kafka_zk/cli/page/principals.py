"""As whom the page changes a cluster, as far as a client knows it. Pure.

Brokers derive a client's principal from its login, and may map names by rules of their own
(ssl.principal.mapping.rules, sasl.kerberos.principal.to.local.rules). What a client cannot know is described instead.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_zk.registry.client.security import Security
    from kafka_zk.security.client_security import ClientSecurity


def principal_at_brokers(security: "ClientSecurity") -> str:
    sasl = security.sasl
    if sasl is None:
        has_certificate = security.tls is not None and security.tls.identity is not None
        return "the principal of its certificate" if has_certificate else "User:ANONYMOUS"
    if sasl.kerberos is not None:
        return f"the Kerberos principal {sasl.kerberos.principal}" if sasl.kerberos.principal else "its Kerberos ticket"
    if sasl.tokens is not None:
        return "the principal of its OAUTHBEARER token"
    return f"the owner of delegation token {sasl.username}" if sasl.is_token else f"User:{sasl.username}"


def principal_in_zookeeper(security: "Security") -> str:
    """ZooKeeper's notation, scheme and identity; a session may have several identities."""
    proven = [
        *([f"sasl:{security.sasl.username}"] if security.sasl is not None else []),
        *([f"digest:{security.digest.username}"] if security.digest is not None else []),
        *(["its certificate"] if security.tls is not None and security.tls.keystore is not None else []),
    ]
    return " and ".join(proven) or "world:anyone"
