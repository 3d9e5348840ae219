"""The quotas of users and clients, and what each client has used of its own.

A client is found by its principal and client id, and it chooses the client id freely. So what is kept about clients is
bounded, and forgotten an hour after its last use (``Recent``). A client that a flood of ids displaces begins anew.

Pure: times are ms on a clock that is never set. Source: ClientQuotaManager.scala, QuotaFactory.scala@3.9.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.rate import MOST_THROTTLE_MS, QuotaWindow
from kafka_zk.base.recent import Recent
from kafka_zk.broker.quota.buckets import RateBucket, TokenBucket
from kafka_zk.broker.quota.quota_table import Match, Owner, QuotaKey, QuotaTable

KEEP_MS = 3_600_000
"""Kafka forgets a client after an hour without requests."""

MOST_CLIENTS = 10_000
"""Clients, and for each kind of quota rates, that are kept in each of two generations: some 10 MB together."""

LONG_CLIENT_ID = 256
"""A client id above this length is kept as a hash, since a client may send 32 KB of it."""

Bucket = RateBucket | TokenBucket
ClientKey = tuple[str, str | int | None]
Clients = Mapping[ClientKey, "ClientBuckets"]
"""What limits each client, by principal and client id; has an entry for any."""



class ClientBuckets(NamedTuple):
    """What limits one client; None where nothing does. ``header_bytes``: of its request headers, without tags."""

    produce: RateBucket | None
    fetch: RateBucket | None
    request: RateBucket | None
    mutation: TokenBucket | None
    header_bytes: int


class Usage(NamedTuple):
    """How much an owner of a quota uses. ``value``: bytes a second, percent of a thread, or tokens that are left."""

    key: QuotaKey
    owner: Owner
    bound: float
    value: float
    mutation_rate: float
    throttle_ms: float


class ClientQuotas:
    """See the module's docstring."""

    def __init__(self, window: QuotaWindow, mutation_window: QuotaWindow, most_clients: int = MOST_CLIENTS) -> None:
        self.table = QuotaTable()
        self._window = window
        self._mutation_window = mutation_window
        self.clients: Recent[ClientKey, ClientBuckets] = Recent(most_clients, KEEP_MS)
        self._buckets: dict[QuotaKey, Recent[Owner, Bucket]] = {key: Recent(most_clients, KEEP_MS) for key in QuotaKey}

    def set(self, entity_type: str, entity_name: str, properties: Mapping[str, str]) -> list[str]:
        """As ``QuotaTable.set``; it holds from the next request on, and what was used before counts on."""
        faults = self.table.set(entity_type, entity_name, properties)
        self.clients.clear()
        for key, buckets in self._buckets.items():
            if not self.table.has(key):
                buckets.clear()
        return faults

    def of(self, principal: str, client_id: str | None, now_ms: float) -> ClientBuckets:
        """What limits a client. ``principal``: as Kafka writes it, ``User:alice``."""
        buckets = self.clients.young.get((principal, client_id))
        if buckets is not None:
            return buckets
        key = _client_key(principal, client_id)
        buckets = self.clients.find(key, now_ms)
        if buckets is None:
            buckets = self._new(principal.partition(":")[2], client_id or "", now_ms)
            self.clients.put(key, buckets, now_ms)
        return buckets

    def _new(self, user: str, client_id: str, now_ms: float) -> ClientBuckets:
        produce, fetch, request, mutation = (self._bucket(key, user, client_id, now_ms) for key in QuotaKey)
        assert not isinstance(produce, TokenBucket) and not isinstance(fetch, TokenBucket)
        assert not isinstance(request, TokenBucket) and not isinstance(mutation, RateBucket)
        return ClientBuckets(produce, fetch, request, mutation, 10 + len(client_id.encode()))

    def _bucket(self, key: QuotaKey, user: str, client_id: str, now_ms: float) -> Bucket | None:
        match = self.table.find(key, user, client_id)
        if match is None:
            return None
        buckets = self._buckets[key]
        owner = match.owner
        if len(owner.client) > LONG_CLIENT_ID:
            owner = Owner(owner.user, f"{owner.client[:LONG_CLIENT_ID]}...{hash(owner.client):x}")
        bucket = buckets.find(owner, now_ms)
        if bucket is None:
            bucket = self._new_bucket(key, match, now_ms)
            buckets.put(owner, bucket, now_ms)
        if bucket.bound != match.bound:
            bucket.set_bound(match.bound)
        return bucket

    def _new_bucket(self, key: QuotaKey, match: Match, now_ms: float) -> Bucket:
        if key is QuotaKey.MUTATION:
            return TokenBucket(self._mutation_window, match.bound, now_ms)
        most_throttle_ms = self._window.sample_ms if key is QuotaKey.REQUEST else MOST_THROTTLE_MS
        return RateBucket(self._window, match.bound, most_throttle_ms)

    def usage(self, now_ms: float, most: int) -> list[Usage]:
        """Of at most ``most`` owners of each kind of quota, those that were busy last."""
        return [
            _usage(key, owner, bucket, now_ms)
            for key, buckets in self._buckets.items()
            for owner, bucket in buckets.items()[:most]
        ]

    def forget_idle(self, now_ms: float) -> None:
        """To be called now and then, or idle clients are kept until others come."""
        self.clients.turn(now_ms)
        for buckets in self._buckets.values():
            buckets.turn(now_ms)

    @property
    def client_count(self) -> int:
        """Of clients that are kept."""
        return len(self.clients)


def _client_key(principal: str, client_id: str | None) -> ClientKey:
    is_long = client_id is not None and len(client_id) > LONG_CLIENT_ID
    return principal, hash(client_id) if is_long else client_id


def _usage(key: QuotaKey, owner: Owner, bucket: Bucket, now_ms: float) -> Usage:
    if isinstance(bucket, TokenBucket):
        value, mutation_rate = bucket.tokens(now_ms), bucket.rate.per_second(now_ms)
    else:
        value, mutation_rate = bucket.per_second(now_ms), 0.0
    return Usage(key, owner, bucket.bound, value, mutation_rate, bucket.throttles.average_ms(now_ms))
