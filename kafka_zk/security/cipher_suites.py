"""Translates Java's names of cipher suites, which are IANA's, to OpenSSL's. Pure.

Python can choose suites up to TLS 1.2; for TLS 1.3 it uses all of OpenSSL's.
Tests: tests/kafka_zk/security/test_cipher_suites.py compares with ``openssl ciphers -stdname``.
"""

import re

TLS_1_3 = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
"""The TLS 1.3 suites, of which Python always uses all."""

_NAME = re.compile(
    r"(?:TLS|SSL)_(?P<exchange>RSA|(?:EC)?DHE_(?:RSA|DSS|ECDSA)|DH_anon|ECDH_anon)_WITH_"
    r"(?P<cipher>AES_(?:128|256)_(?:CBC|GCM|CCM_8|CCM)|CHACHA20_POLY1305)(?:_(?P<hash>SHA|SHA256|SHA384))?"
)
_EXCHANGES = {"RSA": "", "DH_anon": "ADH-", "ECDH_anon": "AECDH-"}
_MODES = {"CBC": "", "GCM": "-GCM", "CCM": "-CCM", "CCM_8": "-CCM8"}


def openssl_name(name: str) -> str | None:
    """``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`` becomes ``ECDHE-RSA-AES256-GCM-SHA384``. None for unknown names, and
    for TLS 1.3, whose names are equal."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    exchange = _EXCHANGES.get(found["exchange"], found["exchange"].replace("_", "-") + "-")
    if found["cipher"] == "CHACHA20_POLY1305":
        return f"{exchange}CHACHA20-POLY1305"
    _, bits, mode = found["cipher"].split("_", 2)
    digest = f"-{found['hash']}" if found["hash"] else ""
    return f"{exchange}AES{bits}{_MODES[mode]}{digest}"
