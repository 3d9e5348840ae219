"""Addresses as they appear in quotas and ACLs."""

import pytest

from kafka_zk.network.addresses import address_of, peer_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:DB8:0::1", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("no.such.host.invalid", None),
        ("", None),
        ("a" * 70, None),
        ("::1\0", None),
    ],
)
def test_the_address_that_a_text_stands_for(text: str, address: str | None) -> None:
    assert address_of(text) == address


@pytest.mark.parametrize(
    ("host", "address"), [("10.0.0.1", "10.0.0.1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("::1", "0:0:0:0:0:0:0:1"),
     ("2001:db8::f0:5", "2001:db8:0:0:0:0:f0:5"), ("fe80::1%lo.5", "fe80:0:0:0:0:0:0:1%lo.5"), ("a:b", "a:b"),
     (":\0", ":\0"), ("::1\0%lo", "::1\0%lo")]
)  # fmt: skip
def test_a_peer_has_one_address_however_it_came(host: str, address: str) -> None:
    assert peer_address(host) == address
