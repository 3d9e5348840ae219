"""Safeguards of authorization that can be removed for a run: the judge must notice.

``python -m tests.sim.authorization.acl_safeguards NAME --seeds 0-24`` plays until it does.
``no_reload_after_a_new_session`` alone is not among them, because a watcher that counts announcements makes up for it.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.topics import metadata
from kafka_zk.broker.security.acl_authorizer import AclAuthorizer
from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.broker.security.authorizer import Operation
from kafka_zk.broker.security.visible_topics import VisibleTopics
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.acls import AclRegistry, Stored
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import SessionState, Watch
from kafka_zk.registry.client.errors import ConnectionLoss, SessionLost
from kafka_zk.registry.znodes import acl_change
from kafka_zk.security.acl import Pattern
from kafka_zk.sim.campaign.run import Outcome
from kafka_zk.sim.zookeeper.client import SimClient
from tests.sim import taken_out
from tests.sim.authorization.acls import play_acls
from tests.sim.taken_out import TakeOut


def no_reload_after_a_new_session(patch: pytest.MonkeyPatch) -> None:
    """A new session reads only announcements, as the old one did."""

    def session_changed(authorizer: AclAuthorizer, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            authorizer._follow()

    patch.setattr(AclAuthorizer, "_session_changed", session_changed)


def no_reload_and_purged_changes_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """Removes both safeguards, because each makes up for the other."""
    no_reload_after_a_new_session(patch)
    purged_changes_are_not_noticed(patch)


def open_while_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """Before the ACLs are loaded, decisions use what is known so far, even if that is nothing."""

    def decide(
        authorizer: AclAuthorizer, principal: str, host: str, operation: Operation, resource_type: str, name: str
    ) -> bool:
        return authorizer.rules.allows(principal, host, operation, resource_type, name)

    patch.setattr(AclAuthorizer, "_decide", decide)


def topics_are_visible_while_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """Before the ACLs are loaded, metadata of all topics shows the topics that the known ACLs do not deny."""

    def visible_topics(authorizer: AclAuthorizer, context: RequestContext, names: Sequence[str]) -> list[str]:
        return authorizer._visible.among(context.principal, context.peer_host, names)

    patch.setattr(AclAuthorizer, "visible_topics", visible_topics)


def unintelligible_acls_vanish(patch: pytest.MonkeyPatch) -> None:
    """A znode that cannot be parsed counts as one without ACLs."""
    put = AclAuthorizer._put

    def vanish(authorizer: AclAuthorizer, pattern: Pattern, stored: Stored) -> None:
        put(authorizer, pattern, stored if isinstance(stored, frozenset) else frozenset())

    patch.setattr(AclAuthorizer, "_put", vanish)


def watched_after_the_children_are_read(patch: pytest.MonkeyPatch) -> None:
    """A second read, whose result is ignored, sets the watch on the announcements' parent."""
    children = SimClient.children

    async def late(client: SimClient, path: str, watch: Watch | None) -> Any:
        found = await children(client, path)
        await children(client, path, watch)
        return found

    def read(client: SimClient, path: str, watch: Watch | None = None) -> Any:
        is_theirs = watch is not None and path in acl_change.PARENTS.values()
        return late(client, path, watch) if is_theirs else children(client, path, watch)

    patch.setattr(SimClient, "children", read)


def purged_changes_are_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """An announcement that was deleted before it was read is ignored."""
    init = ChangeWatcher.__init__

    def without(watcher: ChangeWatcher, client: Any, parent: Any, prefix: Any, on_change: Any, *more: Any) -> None:
        init(watcher, client, parent, prefix, on_change, more[0])

    patch.setattr(ChangeWatcher, "__init__", without)


def announcements_must_be_understood(patch: pytest.MonkeyPatch) -> None:
    """An announcement that cannot be parsed is ignored."""
    changed = AclAuthorizer._changed

    def passed_over(authorizer: AclAuthorizer, pattern: Pattern | None) -> None:
        if pattern is not None:
            changed(authorizer, pattern)

    patch.setattr(AclAuthorizer, "_changed", passed_over)


def decisions_are_kept(patch: pytest.MonkeyPatch) -> None:
    """A cached decision stays in force after a change."""

    def nothing(authorizer: AclAuthorizer) -> None: ...

    patch.setattr(AclAuthorizer, "_decide_anew", nothing)


def visible_topics_are_kept(patch: pytest.MonkeyPatch) -> None:
    """A topic that was visible to a client stays visible after a change."""

    def nothing(topics: VisibleTopics) -> None: ...

    patch.setattr(VisibleTopics, "clear", nothing)


def listings_are_kept(patch: pytest.MonkeyPatch) -> None:
    """Metadata of all topics repeats its first response without asking the authorizer."""
    visible_topics = metadata._visible_topics
    kept: dict[int, list[str]] = {}

    def visible(services: Services, context: RequestContext) -> Iterator[str]:
        now = list(visible_topics(services, context))
        return iter(kept.setdefault(id(services), now) if now else now)

    patch.setattr(metadata, "_visible_topics", visible)


def deleted_patterns_are_kept(patch: pytest.MonkeyPatch) -> None:
    """ACLs that were deleted before a new session stay in force."""

    def nothing(rules: AclRules, patterns: Collection[Pattern]) -> None: ...

    patch.setattr(AclRules, "keep_only", nothing)


def failed_reads_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A pattern is not read again after a lost connection interrupted the read."""

    async def load(authorizer: AclAuthorizer, patterns: Collection[Pattern]) -> None:
        wanted = list(patterns)
        async with authorizer._lock:
            authorizer._changed_patterns.difference_update(wanted)
            await authorizer._read(wanted)

    patch.setattr(AclAuthorizer, "_load", load)


def failed_loads_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A lost connection interrupts the read of all ACLs, and the read is not repeated."""
    load_all = AclAuthorizer._load_all

    async def once(authorizer: AclAuthorizer) -> None:
        try:
            await load_all(authorizer)
        except (ConnectionLoss, SessionLost):
            authorizer._wants_all = False
            authorizer.is_loaded = True
            authorizer._session_id = authorizer._client.session_id
            authorizer._decide_anew()

    patch.setattr(AclAuthorizer, "_load_all", once)


def changes_are_not_announced(patch: pytest.MonkeyPatch) -> None:
    """A broker or a tool writes ACLs without an announcement."""
    multi = SimClient.multi

    def alone(client: SimClient, operations: Any) -> Any:
        parents = tuple(f"{parent}/" for parent in acl_change.PARENTS.values())
        return multi(client, [each for each in operations if not each.path.startswith(parents)])

    patch.setattr(SimClient, "multi", alone)


def only_literal_patterns_are_followed(patch: pytest.MonkeyPatch) -> None:
    """Like brokers before 2.0, which do not know ``/kafka-acl-extended-changes``."""
    watch_changes = AclRegistry.watch_changes

    def literal(registry: AclRegistry, on_change: Any) -> list[ChangeWatcher]:
        first, *others = watch_changes(registry, on_change)
        for each in others:
            each.close()
        return [first]

    patch.setattr(AclRegistry, "watch_changes", literal)


SAFEGUARDS: dict[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        no_reload_and_purged_changes_are_not_noticed,
        open_while_not_loaded,
        topics_are_visible_while_not_loaded,
        unintelligible_acls_vanish,
        watched_after_the_children_are_read,
        purged_changes_are_not_noticed,
        announcements_must_be_understood,
        decisions_are_kept,
        visible_topics_are_kept,
        listings_are_kept,
        deleted_patterns_are_kept,
        failed_reads_are_forgotten,
        failed_loads_are_forgotten,
        changes_are_not_announced,
        only_literal_patterns_are_followed,
    )
}


def play_acls_without(name: str, seed: int) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    return taken_out.play_without(SAFEGUARDS[name], play_acls, seed)


if __name__ == "__main__":
    sys.exit(taken_out.find("tests.sim.authorization.acl_safeguards", SAFEGUARDS, play_acls, "0-24"))
