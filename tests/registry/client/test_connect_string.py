"""Connection strings: the accepted forms, and one clear sentence for each invalid one (ecosystem complaint 26)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.registry.client.connect_string import ConnectString, parse
from kafka_zk.registry.client.errors import InvalidConnectString


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("h1:2181", (("h1", 2181),), ""),
        ("h1", (("h1", 2181),), ""),
        ("h1:2181,h2:2182/c", (("h1", 2181), ("h2", 2182)), "/c"),
        ("h1,h2/c/d", (("h1", 2181), ("h2", 2181)), "/c/d"),
        ("h1/", (("h1", 2181),), ""),
        ("h1:1/c/", (("h1", 1),), "/c"),
        (" h1:1 , h2:2 /c", (("h1", 1), ("h2", 2)), "/c"),
        ("[::1]:2181,10.0.0.1:3", (("::1", 2181), ("10.0.0.1", 3)), ""),
        ("h1:1,", (("h1", 1),), ""),
    ],
)
def test_accepted(text: str, servers: tuple[tuple[str, int], ...], chroot: str) -> None:
    """The forms are hosts with or without a port, IPv6 in brackets, one chroot at the end, and a trailing slash."""
    assert parse(text) == ConnectString(servers, chroot)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("h1:1/c,h2:2/c", "the chroot is given once"),
        ("", "no server is named"),
        ("/c", "no server is named"),
        (",", "no server is named"),
        ("h1:0", "port 0"),
        ("h1:70000", "port 70000"),
        ("h1:x", "'h1:x' is not 'host:port'"),
        ("::1:2181", "is not 'host:port'"),
        ("h1:1/a//b", "is not a ZooKeeper path"),
        ("h1:1/a/../b", "is not a ZooKeeper path"),
        ("zk://h1:1", "is not"),
    ],
)
def test_refused_with_the_reason(text: str, reason: str) -> None:
    """Each error quotes the string and names the fault."""
    with pytest.raises(InvalidConnectString, match=r"not|no |once|port") as refused:
        parse(text)
    assert reason in str(refused.value)


@given(st.text(max_size=30))
def test_garbage_is_parsed_or_refused(text: str) -> None:
    """Only InvalidConnectString is raised, and an accepted string parses to the same value again."""
    try:
        parsed = parse(text)
    except InvalidConnectString:
        return
    assert parse(parsed.hosts + parsed.chroot) == parsed
