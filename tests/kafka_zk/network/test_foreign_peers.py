"""Peers that are logged once: bounded, summarised, and logged again later."""

from kafka_zk.network.foreign_peers import MOST_PEERS, PERIOD_S, ForeignPeers


def test_a_peer_is_logged_once_in_a_period() -> None:
    peers = ForeignPeers()
    assert [peers.mention("a", now_s) for now_s in (0.0, 1.0, PERIOD_S - 1)] == ["", None, None]
    assert peers.mention("b", 5.0) == ""
    assert peers.mention("a", PERIOD_S) == ""


def test_the_log_says_that_others_are_left_out_and_later_how_many() -> None:
    peers = ForeignPeers()
    said = [peers.mention(f"peer {number}", 600.0) for number in range(MOST_PEERS)]
    assert said[:-1] == [""] * (MOST_PEERS - 1)
    assert said[-1] == " (number 1000; others are not logged for 60 minutes)"
    assert [peers.mention(f"later {number}", 700.0) for number in range(7)] == [None] * 7
    assert peers.mention("new", 600.0 + PERIOD_S) == " (7 others were not logged before)"
    assert peers.mention("peer 3", 601.0 + PERIOD_S) == ""


def test_memory_stays_bounded() -> None:
    peers = ForeignPeers()
    for number in range(5 * MOST_PEERS):
        peers.mention(f"peer {number}", float(number))
    assert len(peers._named) <= MOST_PEERS
