"""A ZooKeeper server's ``zoo.cfg`` keys for TLS and SASL, and the matching settings of clients.

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
    """The security of a server, or of every server of an ensemble.

    Args:
        folder: contains ``keystore.pem`` (the server's key and certificates) for TLS, ``truststore.pem`` (the signers
            of clients) for client certificates, and ``jaas.conf`` with a section ``Server`` for SASL.
        tls, client_certificates, sasl: which of the files are used.
        client_properties: Kafka's keys for a client with access.
    """

    folder: Path
    tls: bool = False
    client_certificates: bool = False
    sasl: bool = False
    client_properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain passwords

    @property
    def jaas_file(self) -> Path | None:
        return self.folder / JAAS if self.sasl else None

    def zoo_cfg(self, folder: PurePath) -> dict[str, object]:
        """``zoo.cfg`` keys, without ports, for a server with the files in ``folder``."""
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
