"""What the doctor must say of each recorded cluster."""

from typing import NamedTuple

from kafka_zk.migration.facts import ClusterFacts, Unknown
from kafka_zk.migration.finding import Verdict
from kafka_zk.migration.phase import Phase, status
from kafka_zk.migration.rules import examine_all


class Outcome(NamedTuple):
    """``phase``: None if the doctor cannot know it."""

    phase: Phase | None
    traps: frozenset[str]


def outcome(facts: ClusterFacts) -> Outcome:
    phase = status(facts).phase
    traps = frozenset(each.rule.name for each in examine_all(facts) if each.verdict is Verdict.TRAP)
    return Outcome(None if isinstance(phase, Unknown) else phase, traps)


def _expect(phase: Phase | None, *traps: str) -> Outcome:
    return Outcome(phase, frozenset(traps))


_TOO_OLD = "broker-releases", "protocol-versions"
_BROKER_DOWN = "brokers-missing", "partitions-leaderless", "partitions-under-replicated", "topic-deletions"

EXPECTED: dict[str, Outcome] = {
    # clean clusters of each release; those before 3.4 must be upgraded first
    "release-2.4.1": _expect(Phase.NONE, *_TOO_OLD),
    "release-2.8.2": _expect(Phase.NONE, *_TOO_OLD),
    "release-3.3.2": _expect(Phase.NONE, *_TOO_OLD),
    "release-3.4.1": _expect(Phase.NONE, "producer-ids"),
    "release-3.6.2": _expect(Phase.NONE),
    "release-3.7.2": _expect(Phase.NONE),
    "release-3.9.1": _expect(Phase.NONE),
    # the first release without a trap, and the last with it
    "two-dirs-and-a-move-3.6.2": _expect(
        Phase.NONE, "several-log-dirs", "reassignments", "brokers-missing", "partitions-under-replicated"
    ),
    "two-dirs-and-a-move-3.7.2": _expect(Phase.NONE, "brokers-missing", "partitions-under-replicated"),
    "tokens-3.4.1": _expect(Phase.NONE, "producer-ids", "delegation-tokens", "scram-users"),
    "tokens-3.6.2": _expect(Phase.NONE),
    # traps before the controllers start
    "malformed": _expect(
        Phase.WAITING,
        "migration-znode-empty",
        "malformed-topics",
        "malformed-configs",
        "malformed-entities",
        "malformed-acls",
        "offsets-in-zookeeper",
    ),
    "broker-down": _expect(Phase.NONE, *_BROKER_DOWN),
    "controller-epoch-missing": _expect(Phase.NONE, "controller-epoch-missing", *_BROKER_DOWN),
    "settings": _expect(
        Phase.NONE,
        "generated-broker-ids",
        "several-log-dirs",
        "policies",
        "refused-settings",
        "encrypted-passwords",
        "delegation-tokens",
        "kraft-brokers-too-early",
        "controllers-without-authorizer",
        "super-users",
        "meta-properties",
    ),
    "tiered": _expect(Phase.NONE, "tiering-disabled"),
    # forward
    "waiting-for-a-restart": _expect(Phase.WAITING),
    "waiting-with-an-older-protocol": _expect(Phase.WAITING, "protocol-and-metadata-version"),
    "dual-write": _expect(Phase.DUAL_WRITE),
    "controller-deleted-too-early": _expect(Phase.ROLLED_BACK_HALFWAY, "migration-znode-left-over"),
    "dual-write-again": _expect(Phase.DUAL_WRITE),
    "finalised-too-early": _expect(Phase.FINALIZED, "finalized-too-early"),
    "finalised": _expect(Phase.FINALIZED),
    # back
    "back-from-waiting": _expect(None),  # while /migration exists, controllers that cannot be reached may run
    "second-attempt": _expect(Phase.DUAL_WRITE),
    "brokers-moved": _expect(Phase.BROKERS_MOVED),
    "back-in-migration-mode": _expect(Phase.DUAL_WRITE),
    "controllers-stopped": _expect(Phase.ROLLED_BACK_HALFWAY, "controller-left-over"),
    "migration-not-deleted": _expect(Phase.ROLLED_BACK_HALFWAY, "migration-znode-left-over"),
    "rolled-back-to-migration-mode": _expect(Phase.NONE, "left-over-metadata-log"),
    "rolled-back": _expect(Phase.NONE, "left-over-metadata-log"),
    "old-log-after-a-rollback": _expect(Phase.WAITING, "left-over-metadata-log"),
    "epoch-ahead": _expect(Phase.DUAL_WRITE, "controller-epoch-behind"),
    "epoch-behind": _expect(Phase.NONE, "controller-epoch-behind", "left-over-metadata-log"),
    "copy-aborted": _expect(Phase.ROLLED_BACK_HALFWAY, "controller-left-over", "malformed-entities"),
    # controllers with a mistake
    "controller-without-flag": _expect(Phase.NONE, "controllers-without-flag"),
    "controller-of-another-cluster": _expect(Phase.WAITING, "controller-cluster-ids"),
    "controller-with-id-of-a-broker": _expect(Phase.WAITING, "controller-ids"),
    # a dynamic quorum
    "dynamic-quorum-waiting": _expect(Phase.WAITING),
    "dynamic-quorum-dual-write": _expect(Phase.DUAL_WRITE),
    # secured, with all permissions and with few
    "secured-controller-without-identity": _expect(Phase.NONE, "protected-znodes", "controllers-without-authorizer"),
    "secured-controller-without-identity-few": _expect(Phase.NONE),
    "secured-controller-without-super-users": _expect(Phase.WAITING, "super-users"),
    "secured-waiting": _expect(Phase.WAITING),
    "secured-waiting-few": _expect(Phase.WAITING),
    "secured-waiting-scram": _expect(Phase.WAITING),
    "secured-dual-write": _expect(Phase.DUAL_WRITE),
    "secured-dual-write-few": _expect(Phase.DUAL_WRITE),
    "secured-controller-without-authorizer": _expect(Phase.DUAL_WRITE, "controllers-without-authorizer"),
}
