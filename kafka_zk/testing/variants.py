"""The ways to secure a ZooKeeper in tests: open, digest, sasl, tls, mtls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.server_security import JAAS, KEYSTORE, TRUSTSTORE, ServerSecurity
from kafka_zk.registry.client.security_keys import DIGEST, DIGEST_LOGIN_MODULE, JAAS_FILE, SET_ACL, SSL

Variant = Literal["open", "digest", "sasl", "tls", "mtls"]
HOSTS = ("localhost", LOCALHOST)
USER, PASSWORD = "kafka", "kafka-secret"


def server_security(variant: Variant, folder: Path, hosts: Sequence[str] = HOSTS) -> ServerSecurity:
    """Create the files of a variant in ``folder``.

    - ``open``: no authentication, no protection.
    - ``digest``: no authentication is required; clients protect their znodes with a name and a password.
    - ``sasl``: SASL DIGEST-MD5 is required; znodes are protected.
    - ``tls``: encrypted; the server's certificate is for ``hosts``; znodes are open.
    - ``mtls``: like ``tls``, and clients need a certificate, which protects their znodes.

    Raises: EmbeddedError if the package that creates certificates is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if variant == "open":
        return ServerSecurity(folder)
    if variant == "digest":
        return ServerSecurity(folder, client_properties={SET_ACL: "true", DIGEST: f"{USER}:{PASSWORD}"})
    if variant == "sasl":
        write_login(folder / JAAS, "Server", **{f"user_{USER}": PASSWORD})
        login = write_login(folder / "client-jaas.conf", "Client", username=USER, password=PASSWORD)
        return ServerSecurity(folder, sasl=True, client_properties={SET_ACL: "true", JAAS_FILE: str(login)})
    return _tls(folder, hosts, client_certificates=variant == "mtls")


def write_login(path: Path, section: str, **options: str) -> Path:
    """One section for SASL DIGEST-MD5."""
    lines = [f'    {name}="{value}"' for name, value in options.items()]
    path.write_text("\n".join([f"{section} {{", f"    {DIGEST_LOGIN_MODULE} required", *lines]) + ";\n};\n")
    return path


def _tls(folder: Path, hosts: Sequence[str], *, client_certificates: bool) -> ServerSecurity:
    try:
        from kafka_zk.embedded.certificates import CertificateAuthority
    except ImportError as error:
        raise EmbeddedError(f"ZooKeeper with TLS needs {error.name}: pip install 'kafka-zk[security]'") from None
    authority = CertificateAuthority()
    authority.write_keystore(folder / KEYSTORE, "zookeeper", hosts)
    truststore = authority.write_truststore(folder / TRUSTSTORE)
    properties = {SSL + "client.enable": "true", SSL + "truststore.location": str(truststore)}
    if client_certificates:
        keystore = authority.write_keystore(folder / "client.pem", "broker")
        properties |= {SET_ACL: "true", SSL + "keystore.location": str(keystore)}
    return ServerSecurity(folder, tls=True, client_certificates=client_certificates, client_properties=properties)
