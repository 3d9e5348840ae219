"""The meaning of each response to a four-letter word."""

import pytest

from kafka_zk.recorder.zookeeper_health.answers import Reading, is_refusal, parse

SRVR = """Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
Latency min/avg/max: 0/0.5/1733
Received: 12
Sent: 11
Connections: 3
Outstanding: 2
Zxid: 0x500000004
Mode: leader
Node count: 5
Proposal sizes last/min/max: 48/48/96
"""
MNTR = """zk_version\t3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
zk_server_state\tfollower
zk_avg_latency\t0.5
zk_max_latency\t30
zk_num_alive_connections\t3
zk_outstanding_requests\t0
"""
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
REFUSED = "srvr is not executed because it is not in the whitelist.\n"


def test_srvr_tells_mode_numbers_and_zxid() -> None:
    assert parse(SRVR, 3) == Reading("leader", "", 3, 2, 3, 1733, 0x500000004)


def test_mntr_tells_the_same_without_the_zxid() -> None:
    assert parse(MNTR, 3) == Reading("follower", "", 3, 0, 3, 30, None)


@pytest.mark.parametrize(
    ("answer", "state"),
    [(NOT_SERVING, "no quorum"), ("imok", "answers"), (REFUSED, "answers"), ("", "no answer"),
     ("HTTP/1.1 400 Bad", "no answer"), ("Mode: emperor\n", "no answer"),
     ("Mode: leader\nOutstanding: 9e9\nZxid: 0xzz\nConnections: -1\n", "leader")],
)  # fmt: skip
def test_other_answers(answer: str, state: str) -> None:
    """Invalid numbers are left out."""
    found = parse(answer, 1)
    assert found.state == state and found[3:] == (None, None, None, None)
    assert bool(found.why) == (state in ("no quorum", "no answer"))


def test_a_refusal_is_no_silence() -> None:
    assert is_refusal(REFUSED) and not is_refusal(SRVR)
