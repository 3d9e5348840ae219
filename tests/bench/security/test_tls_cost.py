"""Tests of the bench of TLS's cost for a request."""

from pathlib import Path

from tests.bench.security.tls_cost import SecuredBroker, TlsPair, contexts, fast_us


def test_a_broker_responds_in_plaintext_and_over_tls(tmp_path: Path) -> None:
    server, client = contexts(tmp_path / "certificates")
    broker = SecuredBroker(tmp_path / "broker", server, client)
    for _ in range(2):
        assert broker.plain_turn_s("produce 1 KB", 5) > 0
        assert broker.secured_turn_s("produce 1 KB", 5) > 0


def test_a_pair_in_memory_repeats_its_turns(tmp_path: Path) -> None:
    pair = TlsPair(*contexts(tmp_path / "certificates"))
    for _ in range(2):
        assert pair.turn_s(b"x" * 100_000, b"y" * 60, 3) > 0


def test_the_fast_turns_count_after_the_warm_up() -> None:
    turns_s = [1e-6] * 20 + [10e-6] * 40 + [50e-6] * 40
    assert round(fast_us(turns_s, 5)) == 2
