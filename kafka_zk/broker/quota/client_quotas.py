"""The quotas of users and clients, and each client's usage.

Clients choose their ids, so the state is limited in size and dropped an hour after its last use (``Recent``). A client
that a flood of ids evicts begins again with unused quotas.

Pure. Times: ms on a monotonic clock. Source: ClientQuotaManager.scala, QuotaFactory.scala@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.rate import MOST_THROTTLE_MS, QuotaWindow
from kafka_zk.base.recent import Recent
from kafka_zk.broker.quota.buckets import RateBucket, TokenBucket
from kafka_zk.broker.quota.quota_table import Match, Owner, QuotaKey, QuotaTable

KEEP_MS = 3_600_000
"""Kafka forgets a client after an hour without requests."""

MOST_CLIENTS = 10_000
"""Maximum number of clients, and of buckets per kind of quota, in each of two generations; about 10 MB in total."""

LONG_CLIENT_ID = 256
"""Longer client ids are stored as a hash, because a client may send 32 KB."""

Bucket = RateBucket | TokenBucket
ClientKey = tuple[str, str | int | None]
Clients = Mapping[ClientKey, "ClientBuckets"]
"""(Principal, client id) -> buckets; a lookup creates a missing entry."""



class ClientBuckets(NamedTuple):
    """The buckets of one client; None if no quota applies. ``header_bytes``: size of the client's request headers,
    without tagged fields."""

    produce: RateBucket | None
    fetch: RateBucket | None
    request: RateBucket | None
    mutation: TokenBucket | None
    header_bytes: int


class Usage(NamedTuple):
    """Usage of one owner of a quota.

    Attributes:
        bound: bytes per second, percent of a thread, or tokens per second.
        value: bytes per second, percent of a thread, or tokens left (negative: debt).
        mutation_rate: tokens taken per second; 0 for other quotas.
        throttle_ms: average throttle time.
    """

    key: QuotaKey
    owner: Owner
    bound: float
    value: float
    mutation_rate: float
    throttle_ms: float


class ClientQuotas:
    def __init__(self, window: QuotaWindow, mutation_window: QuotaWindow, most_clients: int = MOST_CLIENTS) -> None:
        self.table = QuotaTable()
        self._window = window
        self._mutation_window = mutation_window
        self.clients: Recent[ClientKey, ClientBuckets] = Recent(most_clients, KEEP_MS)
        self._buckets: dict[QuotaKey, Recent[Owner, Bucket]] = {key: Recent(most_clients, KEEP_MS) for key in QuotaKey}

    def set(self, entity_type: str, entity_name: str, properties: Mapping[str, str]) -> list[str]:
        """Like ``QuotaTable.set``. Takes effect from the next request on; recorded usage is kept."""
        faults = self.table.set(entity_type, entity_name, properties)
        self.clients.clear()
        for key, buckets in self._buckets.items():
            if not self.table.has(key):
                buckets.clear()
        return faults

    def of(self, principal: str, client_id: str | None, now_ms: float) -> ClientBuckets:
        """The client's buckets. ``principal``: in Kafka's form, ``User:alice``."""
        buckets = self.clients.young.get((principal, client_id))
        if buckets is not None:
            return buckets
        key = _client_key(principal, client_id)
        buckets = self.clients.young.get(key)
        if buckets is None:
            before = self.clients.find(key, now_ms)
            buckets = self._found(principal.partition(":")[2], client_id or "", now_ms, before)
            if before is None:
                self.clients.put(key, buckets, now_ms)
            else:
                self.clients.young[key] = buckets
        return buckets

    def _found(self, user: str, client_id: str, now_ms: float, before: ClientBuckets | None) -> ClientBuckets:
        """Find a client's buckets. A known client keeps its buckets in ``before``, because they are in use and may be
        shared."""
        held: Sequence[Bucket | None] = before[:4] if before is not None else [None] * 4
        produce, fetch, request, mutation = (
            self._bucket(key, user, client_id, now_ms, each) for key, each in zip(QuotaKey, held, strict=True)
        )
        assert not isinstance(produce, TokenBucket) and not isinstance(fetch, TokenBucket)
        assert not isinstance(request, TokenBucket) and not isinstance(mutation, RateBucket)
        return ClientBuckets(produce, fetch, request, mutation, 10 + len(client_id.encode()))

    def _bucket(
        self, key: QuotaKey, user: str, client_id: str, now_ms: float, held: Bucket | None
    ) -> Bucket | None:
        match = self.table.find(key, user, client_id)
        if match is None:
            return None
        buckets = self._buckets[key]
        owner = match.owner
        if len(owner.client) > LONG_CLIENT_ID:
            owner = Owner(owner.user, f"{owner.client[:LONG_CLIENT_ID]}...{hash(owner.client):x}")
        bucket = buckets.find(owner, now_ms)
        if bucket is None:
            bucket = held or self._new_bucket(key, match, now_ms)
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
        """Usage of at most ``most`` owners per kind of quota, recently active ones first."""
        return [
            _usage(key, owner, bucket, now_ms)
            for key, buckets in self._buckets.items()
            for owner, bucket in buckets.items()[:most]
        ]

    def forget_idle(self, now_ms: float) -> None:
        """Drop state that has not been used for an hour. Call this periodically."""
        self.clients.drop_old(now_ms)
        for buckets in self._buckets.values():
            buckets.drop_old(now_ms)

    @property
    def client_count(self) -> int:
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
