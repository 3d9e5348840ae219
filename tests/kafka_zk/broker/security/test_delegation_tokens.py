"""The tokens of a cluster, as its brokers know them."""

import base64
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.turns import after
from kafka_zk.broker.security import delegation_tokens
from kafka_zk.broker.security.delegation_token_rules import TokenLimits
from kafka_zk.broker.security.delegation_tokens import DelegationTokens
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.delegation_tokens import DelegationTokenRegistry
from kafka_zk.registry.znodes.delegation_token import Principal, TokenInformation, token_path
from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from tests.registry.world import World

ALICE, BOB, EVE = (Principal("User", name) for name in ("alice", "bob", "eve"))
MECHANISM = "SCRAM-SHA-256"
SECOND_MS = 1000


class Cluster:
    """Two brokers; tokens live at most ten seconds and expire after five."""

    def __init__(self) -> None:
        self.world = World(2)
        self.registries = [DelegationTokenRegistry(client) for client in self.world.clients]
        limits = TokenLimits(10 * SECOND_MS, 5 * SECOND_MS)
        self.users = ScramCredentials(b"cluster")
        self.one, self.other = (
            DelegationTokens(
                b"secret", limits, registry, client, self.world.scheduler.clock, Random(number), self.users.invented
            )
            for number, (registry, client) in enumerate(zip(self.registries, self.world.clients, strict=True))
        )

    def run(self, story: Any) -> None:
        async def whole() -> None:
            await self.one.start()
            await self.other.start()
            await story()

        self.world.scheduler.run(whole())

    async def pause(self, seconds: float = 1) -> None:
        await after(self.world.clock, seconds)

    def lets_in(self, tokens: DelegationTokens, token: TokenInformation) -> str | None:
        """The user that a login with the token authenticates; None if the broker refuses the client."""
        found = tokens.find(MECHANISM, token.token_id)
        password = base64.b64encode(self.one.hmac(token.token_id)).decode()
        client = scram.scram_client(MECHANISM, token.token_id, password, "abc", is_token=True)
        first = scram.client_first(next(client))
        server = scram.ScramServer(MECHANISM, first, found.credential, "def")
        try:
            server.final_message(client.send(server.first_message))
        except SaslAuthenticationFailed:
            return None
        return found.owner


def test_a_token_of_one_broker_lets_its_owner_in_at_the_other() -> None:
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, BOB, [BOB], -1)
        assert cluster.lets_in(cluster.one, token) == "alice"
        await cluster.pause()
        assert cluster.lets_in(cluster.other, token) == "alice"
        assert list(cluster.other.all()) == [token]
        await cluster.other.expire(BOB, cluster.one.hmac(token.token_id), -1)
        assert cluster.lets_in(cluster.other, token) is None
        await cluster.pause()
        assert cluster.lets_in(cluster.one, token) is None
        assert list(cluster.one.all()) == []

    cluster.run(story)


def test_a_token_that_is_deleted_while_a_broker_starts_lets_nobody_in() -> None:
    """The token stays deleted even if a broker with a fast clock has removed the announcement by then."""
    cluster = Cluster()
    cluster.world.scheduler.run(cluster.one.start())
    token = cluster.world.scheduler.run(cluster.one.create(ALICE, ALICE, [], -1))
    load = cluster.other._load

    async def load_and_wait(token_ids: Sequence[str] | None = None) -> None:
        cluster.other._load = load  # type: ignore[method-assign]
        await load(token_ids)
        await cluster.one.expire(ALICE, cluster.one.hmac(token.token_id), -1)
        assert await cluster.registries[0].purge_changes(cluster.world.scheduler.clock.wall_ms() + 10**9) > 0

    cluster.other._load = load_and_wait  # type: ignore[method-assign]
    cluster.world.scheduler.run(cluster.other.start())
    assert cluster.lets_in(cluster.one, token) is None
    cluster.world.scheduler.run_for(1000)
    assert cluster.lets_in(cluster.other, token) is None


def test_an_expired_token_lets_nobody_in_and_looks_like_none() -> None:
    """A token that was renewed in time still authenticates its owner."""
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause(4)
        expected_ms = cluster.world.scheduler.clock.wall_ms() + 5 * SECOND_MS
        expiry_ms = await cluster.one.renew(ALICE, cluster.one.hmac(token.token_id), -1)
        assert expiry_ms == expected_ms
        await cluster.pause(4)
        assert cluster.one.find(MECHANISM, token.token_id).expires_ms == expiry_ms
        assert cluster.lets_in(cluster.other, token) == "alice"
        known = cluster.one.find(MECHANISM, token.token_id).credential.salt
        await cluster.pause(2)
        assert cluster.lets_in(cluster.one, token) is None
        assert cluster.one.find(MECHANISM, token.token_id).credential.salt == known

    cluster.run(story)


def test_errors_of_renewing() -> None:
    cluster = Cluster()

    async def code(token_hmac: bytes, principal: Principal) -> ErrorCode:
        with pytest.raises(ApiError) as refused:
            await cluster.one.renew(principal, token_hmac, -1)
        return refused.value.code

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        token_hmac = cluster.one.hmac(token.token_id)
        assert await code(b"unknown", ALICE) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert await code(token_hmac, EVE) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        await cluster.pause(6)
        assert await code(token_hmac, ALICE) == ErrorCode.DELEGATION_TOKEN_EXPIRED

    cluster.run(story)


def test_a_token_that_another_broker_has_just_deleted_is_not_found() -> None:
    """The announcement has not arrived yet. Deleting the token again is not an error, because the first response may
    have been lost.
    """
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        again = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause()
        await cluster.registries[1].update(token.token_id, lambda found: None)
        assert cluster.lets_in(cluster.other, token) == "alice", "the announcement has not arrived yet"
        with pytest.raises(ApiError) as refused:
            await cluster.other.renew(ALICE, cluster.one.hmac(token.token_id), -1)
        assert refused.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert cluster.lets_in(cluster.other, token) is None
        await cluster.registries[1].update(again.token_id, lambda found: None)
        now_ms = cluster.world.scheduler.clock.wall_ms()
        assert await cluster.other.expire(ALICE, cluster.one.hmac(again.token_id), -1) == now_ms

    cluster.run(story)


def test_the_controller_deletes_what_has_expired_but_nothing_that_was_renewed() -> None:
    cluster = Cluster()

    async def story() -> None:
        gone = await cluster.one.create(ALICE, ALICE, [], -1)
        kept = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause(4)
        await cluster.one.renew(ALICE, cluster.one.hmac(kept.token_id), -1)
        await cluster.pause(2)
        await cluster.one.delete_expired()
        assert [token.token_id for token in cluster.one.all()] == [kept.token_id]
        assert await cluster.registries[0].token_ids() == [kept.token_id]
        assert gone.token_id != kept.token_id

    cluster.run(story)


def test_another_broker_may_renew_a_token_while_it_is_deleted() -> None:
    """The controller's knowledge is old, so it reads the token before it deletes it."""
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause(6)
        later = cluster.world.scheduler.clock.wall_ms() + SECOND_MS
        await cluster.registries[1].update(token.token_id, lambda found: found._replace(expiry_ms=later))
        await cluster.one.delete_expired()
        assert [each.expiry_ms for each in cluster.one.all()] == [later]

    cluster.run(story)


def test_a_new_session_reads_what_was_announced_meanwhile() -> None:
    """The announcements may have been purged, and a deleted token must not authenticate a client."""
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause()
        cluster.other._watcher.close()  # type: ignore[union-attr]  # as if announcements had been purged
        await cluster.one.expire(ALICE, cluster.one.hmac(token.token_id), -1)
        added = await cluster.one.create(BOB, BOB, [], -1)
        await cluster.pause()
        assert cluster.lets_in(cluster.other, token) == "alice"
        cluster.world.zookeeper.expire(cluster.world.clients[1])
        await cluster.pause(3)
        assert [each.token_id for each in cluster.other.all()] == [added.token_id]

    cluster.run(story)


def test_tokens_that_cannot_be_listed_let_nobody_in_until_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """No announcement follows the removal of the znode's ACL."""
    cluster = Cluster()
    listed: list[float] = []

    async def hidden() -> list[str]:
        listed.append(cluster.world.clock.seconds())
        raise NoAuth("/delegation_token/tokens")

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], 60_000)
        await cluster.pause()
        with monkeypatch.context() as patch:
            patch.setattr(cluster.registries[0], "token_ids", hidden)
            for _ in range(2):
                await ensureDeferred(cluster.one._read_again(None))
            assert cluster.lets_in(cluster.one, token) is None
            await cluster.pause(2.5)
            assert len(listed) == 2
        await cluster.pause(2)
        assert list(cluster.one.all()) == []
        await cluster.pause(1)
        assert list(cluster.one.all()) == [token]
        assert cluster.one._retry is not None and not cluster.one._retry.active()

    cluster.run(story)


def test_an_announced_token_does_not_end_the_reading_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The announced token can be read although the list cannot; the others are read once the list is readable."""
    cluster = Cluster()

    async def hidden() -> list[str]:
        raise NoAuth("/delegation_token/tokens")

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], 60_000)
        await cluster.pause()
        with monkeypatch.context() as patch:
            patch.setattr(cluster.registries[0], "token_ids", hidden)
            await ensureDeferred(cluster.one._read_again(None))
            added = await cluster.other.create(BOB, BOB, [], 60_000)
            await cluster.pause()
            assert list(cluster.one.all()) == [added]
        await cluster.pause(delegation_tokens.RETRY_S + 1)
        assert token in cluster.one.all()

    cluster.run(story)


def test_a_token_that_was_hidden_is_read_again_until_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """No announcement follows the removal of its ACL, whether the token was hidden at the start or later."""
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], 60_000)
        path, others = token_path(token.token_id), await cluster.one.create(BOB, BOB, [], 60_000)
        visible = cluster.registries[0]._read

        async def hiding(paths: Any) -> Any:
            answers = await visible(paths)
            return [NoAuth(path) if each == path else answer for each, answer in zip(paths, answers, strict=True)]

        with monkeypatch.context() as patch:
            patch.setattr(cluster.registries[0], "_read", hiding)
            for ids in (None, [token.token_id]):
                await ensureDeferred(cluster.one._read_again(ids))
                assert list(cluster.one.all()) == [others]
            await cluster.pause(2 * delegation_tokens.RETRY_S)
            assert list(cluster.one.all()) == [others]
        await cluster.pause(delegation_tokens.RETRY_S + 1)
        assert token in cluster.one.all()
        assert cluster.one._retry is not None and not cluster.one._retry.active()

    cluster.run(story)


def test_a_token_that_is_hidden_at_the_start_is_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.one._registry.hidden.add("hidden")
        await ensureDeferred(cluster.one.start())
        assert cluster.one._retry is not None and cluster.one._retry.active()
        await cluster.pause(delegation_tokens.RETRY_S + 1)
        assert cluster.one._registry.hidden == set()

    cluster.world.scheduler.run(story())


def test_many_hidden_tokens_are_read_less_often() -> None:
    """A cluster's brokers must not keep ZooKeeper busy with thousands of tokens that they may never read."""
    cluster = Cluster()

    async def story() -> None:
        cluster.one._registry.hidden.update(f"hidden-{number}" for number in range(2_000))
        cluster.one._read_hidden_later()
        assert cluster.one._retry.getTime() - cluster.world.clock.seconds() == 10

    cluster.run(story)


def test_the_log_says_once_that_tokens_cannot_be_listed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Further attempts log nothing; tokens that are hidden again are logged again."""
    cluster = Cluster()

    async def hidden() -> list[str]:
        raise NoAuth("/delegation_token/tokens")

    async def story() -> None:
        for times in (1, 2):
            with monkeypatch.context() as patch:
                patch.setattr(cluster.registries[0], "token_ids", hidden)
                for _ in range(3):
                    await ensureDeferred(cluster.one._read_again(None))
            assert caplog.text.count("cannot read the delegation tokens") == times
            await ensureDeferred(cluster.one._read_again(None))

    cluster.run(story)


def test_a_broker_that_stops_reads_no_tokens_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def hidden() -> list[str]:
        raise NoAuth("/delegation_token/tokens")

    async def story() -> None:
        monkeypatch.setattr(cluster.registries[0], "token_ids", hidden)
        await ensureDeferred(cluster.one._read_again(None))
        cluster.one.close()
        assert not cluster.one._retry.active()
        await ensureDeferred(cluster.one._read_again(None))
        assert not cluster.one._retry.active()

    cluster.run(story)


def test_tokens_that_cannot_be_read_at_a_start_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()

    async def hidden() -> list[str]:
        raise NoAuth("/delegation_token/tokens")

    monkeypatch.setattr(cluster.registries[0], "token_ids", hidden)
    with pytest.raises(NoAuth):
        cluster.world.scheduler.run(cluster.one.start())
    assert cluster.one._watcher is not None and cluster.one._watcher._closed


def test_a_znode_that_becomes_unreadable_is_no_token_any_more() -> None:
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.world.clients[0].set(token_path(token.token_id), b"{}")
        await cluster.one._read_again([token.token_id])
        assert cluster.lets_in(cluster.one, token) is None

    cluster.run(story)


def test_the_number_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MOST_TOKENS", 1)
    cluster = Cluster()

    async def story() -> None:
        await cluster.one.create(ALICE, ALICE, [], -1)
        with pytest.raises(ApiError) as refused:
            await cluster.one.create(ALICE, ALICE, [], -1)
        assert refused.value.code == ErrorCode.POLICY_VIOLATION

    cluster.run(story)


def test_one_owner_does_not_take_the_tokens_of_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token counts until it is deleted, on every broker, however often it is renewed."""
    monkeypatch.setattr(delegation_tokens, "MOST_OF_OWNER", 2)
    cluster = Cluster()

    async def story() -> None:
        first, _ = [await cluster.one.create(ALICE, ALICE, [], -1) for _ in range(2)]
        await cluster.one.renew(ALICE, cluster.one.hmac(first.token_id), -1)
        await cluster.pause()
        for broker in (cluster.one, cluster.other):
            with pytest.raises(ApiError) as refused:
                await broker.create(ALICE, ALICE, [], -1)
            assert refused.value.code == ErrorCode.POLICY_VIOLATION
        await cluster.other.create(BOB, ALICE, [], -1)
        await cluster.other.expire(ALICE, cluster.one.hmac(first.token_id), -1)
        await cluster.pause()
        await cluster.one.create(ALICE, ALICE, [], -1)
        await cluster.pause()
        for broker in (cluster.one, cluster.other):
            assert broker._counts == {ALICE: 2, BOB: 1}

    cluster.run(story)


@pytest.mark.parametrize(
    "renewers", [[Principal("User", "%" * 11_000)], [Principal("User", f"{each:0300}") for each in range(900)]]
)
def test_a_token_that_is_too_large_is_not_written(renewers: list[Principal]) -> None:
    """A token that no broker can read would never be deleted, and would not count towards the limit."""
    cluster = Cluster()

    async def story() -> None:
        with pytest.raises(ApiError) as refused:
            await cluster.one.create(ALICE, ALICE, renewers, -1)
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert await cluster.registries[0].token_ids() == []
        as_large = [Principal("User", f"{each:040}") for each in range(150)]
        await cluster.one.create(ALICE, ALICE, as_large, -1)
        await cluster.pause()
        assert [token.renewers for token in cluster.other.all()] == [tuple(as_large)]

    cluster.run(story)


def test_a_token_of_an_owner_that_is_no_user_lets_nobody_in() -> None:
    """Kafka's brokers create such tokens."""
    cluster = Cluster()

    async def story() -> None:
        token = await cluster.one.create(Principal("Group", "alice"), EVE, [], -1)
        assert cluster.lets_in(cluster.one, token) is None

    cluster.run(story)
