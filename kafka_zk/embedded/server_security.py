"""How a ZooKeeper server lets clients in: the ``zoo.cfg`` keys for TLS and SASL, and what clients need in turn.

Source: ZooKeeper Administrator's Guide 3.9, "Encryption, Authentication, Authorization Options".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

KEYSTORE = "keystore.pem"
TRUSTSTORE = "truststore.pem"
JAAS = "jaas.conf"


@dataclass(frozen=True, slots=True)
class ServerSecurity:
    """What one server, or every server of an ensemble, asks of its clients.

    Args:
        folder: has ``keystore.pem`` (the server's key and certificates) for TLS, ``truststore.pem`` (who signs the
            clients') for client certificates, and ``jaas.conf`` with a section ``Server`` for SASL.
        tls, client_certificates, sasl: which of the files count.
        client_properties: Kafka's keys for a client that is let in.
    """

    folder: Path
    tls: bool = False
    client_certificates: bool = False
    sasl: bool = False
    client_properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords among them

    @property
    def jaas_file(self) -> Path | None:
        return self.folder / JAAS if self.sasl else None

    def zoo_cfg(self, folder: PurePath) -> dict[str, object]:
        """Keys for ``zoo.cfg`` of a server that finds the files in ``folder``; its ports are not among them."""
        settings: dict[str, object] = {}
        if self.tls:
            settings |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": folder / KEYSTORE,
                "ssl.keyStore.type": "PEM",
                "ssl.clientAuth": "need" if self.client_certificates else "none",
            }
        if self.client_certificates:
            settings |= {"ssl.trustStore.location": folder / TRUSTSTORE, "ssl.trustStore.type": "PEM"}
        if self.sasl:
            settings |= {
                "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "requireClientAuthScheme": "sasl",
                "sessionRequireClientSASLAuth": "true",
            }
        return settings
