"""The usage of each client, and how many clients are remembered."""

import sys

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.quota.client_quotas import KEEP_MS, LONG_CLIENT_ID, ClientQuotas
from kafka_zk.broker.quota.quota_table import Owner, QuotaKey

RATE = QuotaKey.PRODUCE.value


def quotas(most_clients: int = 100) -> ClientQuotas:
    return ClientQuotas(QuotaWindow(), QuotaWindow(), most_clients)


def used(found: ClientQuotas, user: str, client_id: str | None, now_ms: int = 0) -> float | None:
    bucket = found.of(f"User:{user}", client_id, now_ms).produce
    return None if bucket is None else bucket.total


def use(found: ClientQuotas, user: str, client_id: str, count: int, now_ms: int = 0) -> None:
    bucket = found.of(f"User:{user}", client_id, now_ms).produce
    assert bucket is not None
    bucket.add(count, now_ms)


def test_a_users_quota_is_shared_by_its_client_ids() -> None:
    found = quotas()
    found.set("users", "<default>", {RATE: "5"})
    use(found, "u", "a", 7)
    assert [used(found, "u", "b"), used(found, "v", "a"), used(found, "u", None)] == [7, 0, 7]


def test_a_users_quota_is_shared_with_a_client_id_that_comes_hours_later() -> None:
    found = quotas()
    found.set("users", "u", {RATE: "5"})
    for now_ms in range(0, 5 * KEEP_MS, KEEP_MS // 4):
        found.forget_idle(now_ms)
        use(found, "u", "a", 1, now_ms)
    first, second = (found.of("User:u", client_id, now_ms).produce for client_id in "ab")
    assert first is not None and first is second


def test_a_client_ids_quota_is_shared_by_all_users() -> None:
    found = quotas()
    found.set("clients", "<default>", {RATE: "5"})
    use(found, "u", "a", 7)
    assert [used(found, "v", "a"), used(found, "u", "b"), used(found, "u", "")] == [7, 0, None]


def test_a_pairs_quota_is_its_own() -> None:
    found = quotas()
    found.set("users", "<default>/clients/<default>", {RATE: "5"})
    use(found, "u", "a", 7)
    assert [used(found, "u", "a"), used(found, "v", "a"), used(found, "u", "b")] == [7, 0, 0]


def test_a_changed_quota_counts_what_was_used() -> None:
    found = quotas()
    found.set("users", "u", {RATE: "1000000"})
    use(found, "u", "a", 70_000)
    found.set("users", "u", {RATE: "5000"})
    bucket = found.of("User:u", "a", 0).produce
    assert bucket is not None and bucket.hold_back_ms(0) == 4_000
    found.set("users", "u", {})
    assert used(found, "u", "a") is None


def test_the_size_of_a_request_includes_its_header() -> None:
    found = quotas()
    assert found.of("User:u", "äb", 0).header_bytes == 13
    assert found.of("User:u", None, 0).header_bytes == 10


def test_a_million_client_ids_take_bounded_memory() -> None:
    """Some client ids have 20 KB. Active clients are not forgotten."""
    found = quotas(most_clients=100)
    found.set("clients", "<default>", {RATE: "1000000"})
    use(found, "u", "worker", 7)
    for number in range(20_000):
        use(found, "u", f"{number}" * 4_000 if number % 100 == 0 else f"client {number}", 1)
        if number % 50 == 0:
            assert used(found, "u", "worker") == 7
    assert found.client_count <= 200
    kept = [owner.client for owner in (usage.owner for usage in found.usage(0, 1_000))]
    assert len(kept) <= 200
    assert sum(map(sys.getsizeof, kept)) < 200 * 2 * LONG_CLIENT_ID


def test_two_long_client_ids_are_two() -> None:
    found = quotas()
    found.set("clients", "<default>", {RATE: "5"})
    use(found, "u", "x" * 500 + "1", 7)
    assert [used(found, "u", "x" * 500 + end) for end in "12"] == [7, 0]


def test_an_idle_client_is_forgotten_after_two_hours_at_most() -> None:
    found = quotas()
    found.set("users", "u", {RATE: "5"})
    use(found, "u", "a", 7)
    for hour in range(1, 4):
        found.forget_idle(hour * KEEP_MS)
    assert found.client_count == 0 and found.usage(3 * KEEP_MS, 10) == []


def test_usage_says_who_uses_how_much_of_what() -> None:
    found = quotas()
    found.set("users", "u", {RATE: "5", "controller_mutation_rate": "2.0"})
    buckets = found.of("User:u", "a", 0)
    assert buckets.produce is not None and buckets.mutation is not None
    buckets.produce.add(100, 0)
    buckets.mutation.take(4, 0)
    produce, mutation = found.usage(0, 10)
    assert (produce.key, produce.owner, produce.bound, produce.value) == (QuotaKey.PRODUCE, Owner("u", ""), 5, 10)
    assert (mutation.key, mutation.value, mutation.mutation_rate) == (QuotaKey.MUTATION, 18, 0.4)


def test_another_client_id_does_not_end_the_pacing_of_its_user() -> None:
    """A change of another user's quota does not end it, either."""
    found = quotas()
    found.set("users", "u", {RATE: "1000"})
    bucket = found.of("User:u", "a", 0).produce
    assert bucket is not None
    assert bucket.add(12_000, 0) > 0
    assert bucket.add(1, 2_000) > 0
    paced_ms = bucket.add(5_000, 11_500)
    assert paced_ms > 0
    found.of("User:u", "b", 11_500)
    found.set("users", "v", {RATE: "1"})
    found.of("User:u", "a", 11_500)
    assert bucket.hold_back_ms(11_500) == paced_ms
