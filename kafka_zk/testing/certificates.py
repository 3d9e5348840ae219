"""A certificate authority for tests; needs ``pip install 'kafka-zk[security]'``."""

from kafka_zk.embedded.certificates import CertificateAuthority

__all__ = ["CertificateAuthority"]
