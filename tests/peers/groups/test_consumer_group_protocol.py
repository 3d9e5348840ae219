"""KIP-848 needs KRaft: Kafka 3.9.1 in ZooKeeper mode offers the APIs of its groups and refuses every request."""

from __future__ import annotations

import pytest

from tests.peers import wire_probe
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_UNSUPPORTED_VERSION = b"\x00\x23"
_NO_TIME, _NULL, _EMPTY, _NO_TAGS = bytes(4), b"\0", b"\x01", b"\0"
_NO_OPERATIONS = b"\x80\0\0\0"


def test_both_apis_are_offered_in_version_0(target: Target) -> None:
    offered = wire_probe.offered_versions(target.ports[0])
    assert (offered[68], offered[69]) == ((0, 0), (0, 0))


def test_a_heartbeat_is_refused(target: Target) -> None:
    no_epoch, no_interval, no_assignment = bytes(4), bytes(4), b"\xff"
    refusal = _NO_TIME + _UNSUPPORTED_VERSION + _NULL + _NULL + no_epoch + no_interval + no_assignment + _NO_TAGS
    assert wire_probe.consumer_group_heartbeat(target.ports[0], "g", "t") == refusal


def test_each_group_of_a_describe_is_refused(target: Target) -> None:
    def refusal(name: bytes) -> bytes:
        epochs = bytes(8)
        front = _UNSUPPORTED_VERSION + _NULL + b"\x02" + name
        return front + _EMPTY + epochs + _EMPTY + _EMPTY + _NO_OPERATIONS + _NO_TAGS

    answer = wire_probe.consumer_group_describe(target.ports[0], ["g", "h"])
    assert answer == _NO_TIME + b"\x03" + refusal(b"g") + refusal(b"h") + _NO_TAGS
