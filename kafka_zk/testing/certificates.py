"""A certificate authority for tests. Needs the package ``cryptography``: ``pip install 'kafka-zk[embedded]'``."""

from kafka_zk.embedded.certificates import CertificateAuthority

__all__ = ["CertificateAuthority"]
