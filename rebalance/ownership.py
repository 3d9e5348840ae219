"""The partitions that one member owns in ZooKeeper: their tokens, and everything that is written under them.

Each commit needs the token that the write before it left, so the commits and releases of one member are written one
after another; what one of them contains is pipelined. All of it belongs to one session: ``forget`` ends it, and what
comes back later changes nothing. Tests: ``tests/rebalance/test_driver.py``.
"""

from collections.abc import Callable, Mapping

from twisted.internet.defer import DeferredLock

from registry.client import RegistryClient
from registry.errors import SessionLost
from registry.events import Observe
from registry.offsets import NOT_THE_OWNER, Commit, OffsetRegistry, Refused
from registry.owners import Claim, Claimed, OwnerRegistry, Release, Taken
from storage.types import TopicPartition

IN_DOUBT = Refused("the session is not certain to be alive")

Offsets = Mapping[TopicPartition, int]


class Ownership:
    """See the module's text."""

    def __init__(self, client: RegistryClient, group: str, observe: Observe, actor: str) -> None:
        self.owners = OwnerRegistry(client, group, observe, actor)
        self._offsets = OffsetRegistry(client, group)
        self._tokens: dict[TopicPartition, int] = {}
        self._writing = DeferredLock()

    def forget(self) -> None:
        """The session ended. (A new dictionary: whatever is under way goes on with the old one.)"""
        self._tokens = {}

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        """These have another owner."""
        for tp in partitions:
            self._tokens.pop(tp, None)

    async def claim(
        self, threads: Mapping[TopicPartition, str], on_gone: Callable[[TopicPartition], None]
    ) -> Mapping[TopicPartition, Claimed | Taken]:
        """``on_gone`` is called when the owner of one that is Taken has gone. Raises: SessionLost."""
        tokens = self._tokens
        outcomes = await self.owners.claim((Claim(tp, thread) for tp, thread in threads.items()), on_gone)
        tokens.update({tp: outcome.token for tp, outcome in outcomes.items() if isinstance(outcome, Claimed)})
        return outcomes

    async def release(self, offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, bool]:
        """Commit (where not None) and give back; False: it was not owned any more. Raises: SessionLost."""
        await self._writing.acquire()
        try:
            tokens = self._tokens
            releases = {tp: Release(offset, tokens[tp]) for tp, offset in offsets.items() if tp in tokens}
            outcomes = await self.owners.release(releases)
            for tp in offsets:
                tokens.pop(tp, None)
        finally:
            self._writing.release()
        return {tp: outcomes.get(tp, False) for tp in offsets}

    async def commit(self, offsets: Offsets, may_act: Callable[[], bool]) -> dict[TopicPartition, Refused | None]:
        """None: written. IN_DOUBT: not tried. Any other Refused: not owned."""
        await self._writing.acquire()
        try:
            tokens = self._tokens
            owned = {tp: Commit(offset, tokens[tp]) for tp, offset in offsets.items() if tp in tokens}
            if not may_act():
                return {tp: IN_DOUBT if tp in owned else NOT_THE_OWNER for tp in offsets}
            settled = await self._offsets.commit(owned)
        except SessionLost:
            return dict.fromkeys(offsets, NOT_THE_OWNER)
        finally:
            self._writing.release()
        outcomes: dict[TopicPartition, Refused | None] = dict.fromkeys(offsets, NOT_THE_OWNER)
        for tp, outcome in settled.items():
            if isinstance(outcome, Refused):
                outcomes[tp] = outcome
            else:
                outcomes[tp] = None
                if tokens.get(tp) == owned[tp].token:
                    tokens[tp] = outcome
        return outcomes

    async def lost(self) -> frozenset[TopicPartition]:
        """Those whose owner znode is not there or not of this session. Raises: ConnectionLoss, SessionLost."""
        return frozenset(await self.owners.not_ours(list(self._tokens)))
