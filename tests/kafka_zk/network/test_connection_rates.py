"""Limits of the number of connections that are accepted per second."""

from kafka_zk.network.connection_rates import ConnectionRates


def accepted(rates: ConnectionRates, count: int, *, is_protected: bool = False) -> int:
    return [rates.accepted("L", 0, is_protected=is_protected) for _ in range(count)][-1]


def test_without_a_limit_nobody_waits() -> None:
    rates = ConnectionRates()
    assert accepted(rates, 1_000) == 0
    assert rates.refused_ms("L", "1.2.3.4", 0) == 0
    assert not rates.is_limited("L", is_protected=False)
    assert rates.accept_rate("L", 0) == 100


def test_a_broker_above_its_rate_pauses_for_one_sample_at_most() -> None:
    rates = ConnectionRates()
    rates.set_limits(2, {})
    assert accepted(rates, 20) == 0
    assert accepted(rates, 1) == 500
    assert accepted(rates, 50) == 1_000
    assert rates.throttled_ms["L"][0] == 51


def test_the_listener_of_brokers_has_no_limit_but_its_own() -> None:
    rates = ConnectionRates()
    rates.set_limits(1, {})
    assert accepted(rates, 100, is_protected=True) == 0
    assert not rates.is_limited("L", is_protected=True)
    rates.set_limits(1, {"L": 2})
    assert rates.is_limited("L", is_protected=True)
    assert accepted(rates, 1, is_protected=True) == 1_000


def test_a_listener_has_a_rate_of_its_own() -> None:
    rates = ConnectionRates()
    rates.set_limits(1_000, {"L": 1})
    assert accepted(rates, 11) == 1_000
    assert rates.accepted("M", 0, is_protected=False) == 0


def test_an_address_above_its_rate_is_refused_and_does_not_count() -> None:
    rates = ConnectionRates()
    rates.set_address_limit(None, 1)
    rates.set_address_limit("10.0.0.1", 3)
    refused = {
        address: sum(rates.refused_ms("L", address, 0) > 0 for _ in range(50)) for address in ("10.0.0.1", "10.0.0.2")
    }
    assert refused == {"10.0.0.1": 20, "10.0.0.2": 40}
    assert all(rates.refused_ms("L", "10.0.0.2", 5_000) > 0 for _ in range(50))
    assert rates.refused_ms("L", "10.0.0.2", 11_000) == 0
    rates.set_address_limit("10.0.0.1", None)
    rates.set_address_limit(None, None)
    assert rates.refused_ms("L", "10.0.0.1", 0) == 0


def test_a_rate_of_nothing_refuses_all() -> None:
    rates = ConnectionRates()
    rates.set_address_limit("10.0.0.1", 0)
    assert [rates.refused_ms("L", "10.0.0.1", now_ms) for now_ms in (0, 60_000)] == [1_000] * 2


def test_addresses_without_end_take_bounded_memory() -> None:
    rates = ConnectionRates()
    rates.set_address_limit(None, 5)
    for number in range(50_000):
        rates.refused_ms("L", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)
    assert len(rates._addresses) <= 20_000
