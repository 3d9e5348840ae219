"""The ways in which a ZooKeeper authenticates clients."""

import sys
from pathlib import Path

import pytest

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.testing.variants import server_security


def test_tls_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafka_zk.embedded.certificates", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(EmbeddedError, match=r"needs cryptography: pip install 'kafka-zk\[security\]'"):
        server_security("tls", tmp_path)
