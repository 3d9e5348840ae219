"""Names of cipher suites, compared with the table that OpenSSL prints."""

import re
import shutil
import subprocess

import pytest

from kafka_zk.security.cipher_suites import TLS_1_3, openssl_name


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("SSL_DHE_DSS_WITH_AES_128_CBC_SHA256", "DHE-DSS-AES128-SHA256"),
        ("TLS_AES_128_GCM_SHA256", None),
        ("TLS_UNKNOWN", None),
    ],
)
def test_names_of_java(java: str, openssl: str | None) -> None:
    assert openssl_name(java) == openssl


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl here")
def test_openssls_own_table() -> None:
    run = subprocess.run(["openssl", "ciphers", "-stdname", "ALL"], capture_output=True, text=True, check=True)
    table = [line.split()[:3:2] for line in run.stdout.splitlines()]
    others = re.compile("PSK|SRP|ARIA|CAMELLIA")  # Java has no name for these
    of_java = [(java, name) for java, name in table if java not in TLS_1_3 and not others.search(java)]
    assert of_java and not [(java, name) for java, name in of_java if openssl_name(java) != name]
