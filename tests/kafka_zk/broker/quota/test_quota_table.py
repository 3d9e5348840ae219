"""Which quota applies to a client."""

import random

import pytest

from kafka_zk.broker.quota.quota_table import Match, Owner, QuotaKey, QuotaTable, parse_bound

RATE = QuotaKey.PRODUCE
IN_ORDER = [
    ("users", "u/clients/c", Owner("u", "c")),
    ("users", "u/clients/<default>", Owner("u", "c")),
    ("users", "u", Owner("u", "")),
    ("users", "<default>/clients/c", Owner("u", "c")),
    ("users", "<default>/clients/<default>", Owner("u", "c")),
    ("users", "<default>", Owner("u", "")),
    ("clients", "c", Owner("", "c")),
    ("clients", "<default>", Owner("", "c")),
]
"""The order of ClientQuotaManager.scala@3.9."""


def test_the_first_match_wins() -> None:
    """Each quota is removed in turn, and the next one applies."""
    table = QuotaTable()
    for number, (entity_type, name, _) in enumerate(reversed(IN_ORDER), 1):
        table.set(entity_type, name, {RATE.value: str(number)})
    for number, (entity_type, name, owner) in zip(range(len(IN_ORDER), 0, -1), IN_ORDER, strict=True):
        assert table.find(RATE, "u", "c") == Match(number, owner, f"{entity_type}/{name}")
        table.set(entity_type, name, {})
    assert table.find(RATE, "u", "c") is None
    assert table.is_empty


def test_each_kind_of_quota_is_found_by_itself() -> None:
    table = QuotaTable()
    table.set("users", "u/clients/c", {"producer_byte_rate": "5"})
    table.set("users", "<default>", {"producer_byte_rate": "9", "request_percentage": "50.0"})
    found = {key: table.find(key, "u", "c") for key in QuotaKey}
    assert {key: match and match.bound for key, match in found.items()} == {
        QuotaKey.PRODUCE: 5, QuotaKey.REQUEST: 50, QuotaKey.FETCH: None, QuotaKey.MUTATION: None,
    }  # fmt: skip


@pytest.mark.parametrize(("entity_type", "name", "_owner"), IN_ORDER[:2] + IN_ORDER[3:5] + IN_ORDER[6:])
def test_an_empty_client_id_has_no_quota_of_clients(entity_type: str, name: str, _owner: Owner) -> None:
    table = QuotaTable()
    table.set(entity_type, name, {RATE.value: "5"})
    assert table.find(RATE, "u", "") is None


def test_names_are_compared_as_what_they_stand_for() -> None:
    """A client may call itself ``<default>``, and another tool may percent-encode more characters than ours does."""
    table = QuotaTable()
    table.set("clients", "<default>", {RATE.value: "1"})
    table.set("clients", "%3Cdefault%3E", {RATE.value: "2"})
    table.set("users", "%61%2f", {RATE.value: "3"})
    found = [table.find(RATE, user, client) for user, client in [("u", "x"), ("u", "<default>"), ("a/", "x")]]
    assert [match.bound for match in found if match] == [1, 2, 3]


def test_an_unlimited_quota_hides_those_behind_it() -> None:
    table = QuotaTable()
    table.set("users", "<default>", {RATE.value: "5"})
    table.set("users", "u", {RATE.value: str(2**63 - 1)})
    assert table.find(RATE, "u", "c") is None


def test_what_is_no_number_is_told_and_does_not_count() -> None:
    table = QuotaTable()
    faults = table.set("users", "u", {RATE.value: "many", "consumer_byte_rate": "5", "SCRAM-SHA-256": "secret"})
    assert len(faults) == 1 and "/config/users/u: producer_byte_rate" in faults[0] and "secret" not in faults[0]
    assert table.find(RATE, "u", "c") is None
    assert table.has(QuotaKey.FETCH) and not table.has(RATE)


@pytest.mark.parametrize(("text", "bound"), [("-5", 0), ("0", 0), ("0.0", 0), ("12", 12), ("Infinity", float("inf"))])
def test_bounds(text: str, bound: float) -> None:
    assert parse_bound(text) == bound


def test_counts_follow_any_order_of_changes() -> None:
    randomness, table = random.Random(3), QuotaTable()
    wanted: dict[tuple[str, str], bool] = {}
    for _ in range(500):
        entity = randomness.choice([("users", "a"), ("users", "a/clients/b"), ("clients", "b")])
        wanted[entity] = randomness.random() < 0.5
        table.set(*entity, {RATE.value: "5"} if wanted[entity] else {})
        assert table.has(RATE) == any(wanted.values())
        assert sorted(table.names) == sorted(entity for entity, is_set in wanted.items() if is_set)
