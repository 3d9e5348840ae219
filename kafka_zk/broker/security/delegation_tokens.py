"""The cluster's delegation tokens, in memory, updated by change notifications.

SCRAM credentials are derived at a token's first use, which takes 1 ms. A token's salt is the one that an unknown id
would have, so that clients cannot find out which ids exist.
Source: DelegationTokenManagerZk.scala, DelegationTokenCache.java@3.9.
"""

import base64
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.broker.security import delegation_token_rules as rules
from kafka_zk.broker.security.delegation_token_rules import TokenLimits
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import NoAuth, NoNode, RegistryError
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.delegation_tokens import DelegationTokenRegistry
from kafka_zk.registry.znodes.delegation_token import USER, Principal, TokenInformation, encode
from kafka_zk.security import scram
from kafka_zk.security.scram import TokenCredential

MOST_TOKENS = 20_000
"""Maximum per cluster. Listing more than 40,000 would exceed ZooKeeper's response limit."""

MOST_OF_OWNER = 1_000
"""Maximum per owner, so that one user cannot use up the limit of the cluster."""

MOST_TOKEN_BYTES = 8 * 1024
"""Maximum size of a token's znode, with renewers, because every broker keeps all tokens in memory."""

RETRY_S = 5
"""Pause before tokens that an ACL hides are read again; longer if there are more than 1,000 of them."""

HIDDEN_READS_A_SECOND = 200
"""Maximum number of hidden tokens that a broker reads per second on average."""

_log = Logger()


class DelegationTokens:
    """The delegation tokens that a broker knows.

    Args:
        secret: delegation.token.secret.key, the same at all brokers.
        invented: returns a credential for an unknown id, from mechanism and id.
    """

    def __init__(
        self,
        secret: bytes,
        limits: TokenLimits,
        registry: DelegationTokenRegistry,
        client: RegistryClient,
        clock: Clock,
        random: Random,
        invented: Callable[[str, str], scram.ScramCredential],
    ) -> None:
        self._secret = secret
        self._limits = limits
        self._registry = registry
        self._client = client
        self._clock = clock
        self._random = random
        self._invented = invented
        self._tokens: dict[str, TokenInformation] = {}
        self._ids: dict[bytes, str] = {}  # HMAC to token id
        self._counts: Counter[Principal] = Counter()  # tokens by owner
        self._credentials: dict[tuple[str, str], scram.ScramCredential] = {}
        self._reading = DeferredLock()  # an earlier read must not overwrite a later one
        self._session_id: int | None = None
        self._watcher: ChangeWatcher | None = None
        self._retry: Any = None  # timer of the next read, after an ACL prevented the last one
        self._is_hidden = False  # an ACL prevented the last listing of all tokens, and that was logged
        self._is_closed = False

    # -- reading ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all tokens and follow changes. Raises RegistryError."""
        await self._registry.ensure_paths()
        self._session_id = self._client.session_id
        self._client.add_session_listener(self._session_changed)
        self._watcher = self._registry.watch_changes(self._announced)  # before the read, to miss no change
        try:
            await self._load()
        except BaseException:
            self.close()
            raise
        self._read_hidden_later()

    def close(self) -> None:
        self._is_closed = True
        if self._retry is not None and self._retry.active():
            self._retry.cancel()
        if self._watcher is not None:
            self._watcher.close()

    def _session_changed(self, state: SessionState) -> None:
        """Read all tokens in a new session, because notifications may have been missed."""
        if state is SessionState.CONNECTED and self._client.session_id != self._session_id:
            self._session_id = self._client.session_id
            ensureDeferred(self._read_again(None))

    def _announced(self, token_id: str | None) -> None:
        ensureDeferred(self._read_again(None if token_id is None else [token_id]))

    async def _read_again(self, token_ids: Sequence[str] | None) -> None:
        is_hidden = False
        try:
            await self._load(token_ids)
        except RegistryError as error:  # a new session reads all tokens
            is_hidden = isinstance(error, NoAuth)
            if not (is_hidden and self._is_hidden):
                _log.warn("cannot read the delegation tokens: {error}", error=error)
        if token_ids is None:
            self._is_hidden = is_hidden
        self._read_hidden_later()

    def _read_hidden_later(self) -> None:
        """Read hidden tokens again later, because a changed ACL causes no notification."""
        is_due = self._is_hidden or self._registry.hidden
        if is_due and not (self._is_closed or (self._retry is not None and self._retry.active())):
            pause_s = max(RETRY_S, len(self._registry.hidden) / HIDDEN_READS_A_SECOND)
            self._retry = self._clock.callLater(pause_s, self._read_hidden)

    def _read_hidden(self) -> None:
        ensureDeferred(self._read_again(None if self._is_hidden else sorted(self._registry.hidden)))

    async def _load(self, token_ids: Sequence[str] | None = None) -> None:
        """Read all tokens, or some of them. If listing them is not permitted, all are forgotten."""
        async with self._reading:
            try:
                wanted = token_ids if token_ids is not None else await self._registry.token_ids()
            except NoAuth:
                self._forget(self._tokens)
                raise
            found: set[str] = set()
            for start in range(0, len(wanted), READS_AT_ONCE):
                for token in (await self._registry.read(wanted[start : start + READS_AT_ONCE])).values():
                    found.add(token.token_id)
                    self._keep(token)
            self._forget(token_ids if token_ids is not None else self._tokens.keys(), found)

    def _keep(self, token: TokenInformation) -> None:
        before = self._tokens.get(token.token_id)
        if before is None:
            self._ids[self.hmac(token.token_id)] = token.token_id
        else:
            self._count_less(before.owner)
        self._counts[token.owner] += 1
        self._tokens[token.token_id] = token

    def _count_less(self, owner: Principal) -> None:
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]

    def _forget(self, token_ids: Collection[str], but: Collection[str] = ()) -> None:
        for token_id in [each for each in token_ids if each not in but and each in self._tokens]:
            self._count_less(self._tokens.pop(token_id).owner)
            del self._ids[self.hmac(token_id)]
            for mechanism in scram.MECHANISMS:
                self._credentials.pop((mechanism, token_id), None)

    # -- logins -------------------------------------------------------------------------------------------------------

    def find(self, mechanism: str, token_id: str) -> TokenCredential:
        """The token's credential; an invented one if the token does not exist or has expired, or its owner is not a
        user, because a token of Group:alice would authenticate User:alice."""
        token = self._tokens.get(token_id)
        if token is None or token.owner.type != USER or rules.is_expired(token, self._clock.wall_ms()):
            return TokenCredential(self._invented(mechanism, token_id))
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            credential = self._credentials[mechanism, token_id] = self._derived(mechanism, token_id)
        return TokenCredential(credential, token.owner.name, token.expiry_ms)

    def _derived(self, mechanism: str, token_id: str) -> scram.ScramCredential:
        salt, iterations = self._invented(mechanism, token_id).salt, scram.MIN_ITERATIONS
        password = base64.b64encode(self.hmac(token_id)).decode()
        return scram.credential(
            mechanism, scram.salted_password(mechanism, password, salt, iterations), salt, iterations
        )

    # -- requests -----------------------------------------------------------------------------------------------------

    def hmac(self, token_id: str) -> bytes:
        return rules.hmac_of(self._secret, token_id)

    async def create(
        self, owner: Principal, requester: Principal, renewers: Collection[Principal], lifetime_ms: int
    ) -> TokenInformation:
        """Store a new token. Raises ApiError; RegistryError."""
        if len(self._tokens) >= MOST_TOKENS:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"The cluster has its maximum of {MOST_TOKENS} tokens")
        if self._counts[owner] >= MOST_OF_OWNER:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{owner} has the maximum of {MOST_OF_OWNER} tokens")
        token_id = rules.token_id_of(self._random.randbytes(rules.ID_BYTES))
        now_ms = self._clock.wall_ms()
        token = rules.new_token(token_id, owner, requester, renewers, lifetime_ms, now_ms, self._limits)
        if len(encode(token)) > MOST_TOKEN_BYTES:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"The token has more than {MOST_TOKEN_BYTES} bytes")
        await self._registry.create(token)
        self._keep(token)
        _log.info("created the delegation token {token_id} of {owner}", token_id=token_id, owner=str(owner))
        return token

    async def renew(self, principal: Principal, hmac: bytes, period_ms: int) -> int:
        """Returns the expiry, since the epoch. Raises ApiError; RegistryError."""
        now_ms = self._clock.wall_ms()
        changed = await self._update(
            hmac, lambda token: rules.renewed(token, principal, period_ms, now_ms, self._limits)
        )
        if changed is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)  # the token was deleted meanwhile
        return changed.expiry_ms

    async def expire(self, principal: Principal, hmac: bytes, period_ms: int) -> int:
        """Change the expiry, or delete. Returns the expiry, since the epoch. Raises ApiError; RegistryError."""
        now_ms = self._clock.wall_ms()
        changed = await self._update(hmac, lambda token: rules.ended(token, principal, period_ms, now_ms))
        return now_ms if changed is None else changed.expiry_ms

    async def _update(
        self, hmac: bytes, change: Callable[[TokenInformation], TokenInformation | None]
    ) -> TokenInformation | None:
        token_id = self._ids.get(hmac)
        if token_id is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        try:
            changed = await self._registry.update(token_id, change)
        except NoNode:
            changed = None
        if changed is None:
            self._forget({token_id})
            _log.info("deleted the delegation token {token_id}", token_id=token_id)
        else:
            self._keep(changed)
        return changed

    def all(self) -> Iterator[TokenInformation]:
        """All existing tokens, including expired ones."""
        return iter(list(self._tokens.values()))

    # -- periodic work -----------------------------------------------------------------------------------------------

    async def delete_expired(self) -> None:
        """Delete expired tokens, on the controller. Tokens that another broker renews concurrently are kept."""
        now_ms = self._clock.wall_ms()
        for token in self.all():
            if rules.is_expired(token, now_ms):
                try:
                    await self._update(
                        self.hmac(token.token_id), lambda found: None if rules.is_expired(found, now_ms) else found
                    )
                except ApiError:
                    pass  # already deleted
                except RegistryError as error:
                    _log.info(
                        "the expired delegation token {id} could not be deleted yet: {error}",
                        id=token.token_id, error=error,
                    )  # fmt: skip

    async def purge_changes(self) -> None:
        """Remove old change notifications, which every broker has read. Raises RegistryError."""
        await self._registry.purge_changes(self._clock.wall_ms())
