"""Visible topics are cached up to a bound; the cache still works at the bound."""

from kafka_zk.broker.security.acl_rules import AclRules, Reach
from kafka_zk.broker.security.visible_topics import IDLE_S, VisibleTopics
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType

MOST = 100
ANY_TOPIC = Pattern(ResourceType.TOPIC, "*", PatternType.LITERAL)
NAMES = [f"t{number}" for number in range(30)]


class Asked:
    """``decided``: the clients whose decisions were made again, once for each time."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.rules = AclRules()
        self.decided: list[str] = []
        self.topics = VisibleTopics(self._reach, lambda: self.now_s, MOST, 512)

    def _reach(self, principal: str, host: str) -> Reach:
        self.decided.append(principal)
        return self.rules.reach(principal, host, Operation.DESCRIBE, "Topic")

    def cached_count(self) -> int:
        return sum(len(asked.reach) for asked in self.topics._clients.values())

    def ask(self, principal: str, names: list[str]) -> int:
        """Returns how many decisions of the client stay cached."""
        self.topics.among(principal, "10.0.0.1", names)
        assert self.cached_count() == self.topics.count <= MOST
        asked = self.topics._clients.get((principal, "10.0.0.1"))
        return 0 if asked is None else len(asked.reach)


def test_a_change_of_acls_counts_at_once() -> None:
    asked = Asked()
    assert asked.topics.among("User:a", "10.0.0.1", NAMES) == []
    asked.rules.put(ANY_TOPIC, frozenset([Acl("User:a", "*", Operation.READ, Permission.ALLOW)]))
    asked.topics.clear()
    assert asked.topics.count == 0
    assert asked.topics.among("User:a", "10.0.0.1", NAMES) == NAMES


def test_more_topics_than_the_bound_do_not_make_all_be_decided_anew() -> None:
    """Each Metadata request covers all topics in the same order, in batches."""
    asked = Asked()
    batches = [[f"{batch} {name}" for name in NAMES] for batch in range(5)]
    for _ in range(3):
        kept = [asked.ask("User:a", names) for names in batches]
    assert kept == [MOST] * 5 and asked.decided == ["User:a"]
    reach = asked.topics._clients["User:a", "10.0.0.1"].reach
    assert all(name in reach for names in batches[:3] for name in names)


def test_clients_that_ask_are_kept_and_idle_ones_give_way() -> None:
    asked = Asked()
    assert [asked.ask(f"User:{number}", NAMES) for number in range(5)] == [30, 30, 30, 10, 0]
    asked.now_s = IDLE_S - 1
    assert asked.ask("User:0", NAMES) == 30
    asked.now_s = IDLE_S
    assert asked.ask("User:4", NAMES) == 30
    assert [client for client, _ in asked.topics._clients] == ["User:2", "User:3", "User:0", "User:4"]


def test_a_client_without_a_cached_decision_is_not_remembered() -> None:
    """There are therefore never more clients than decisions."""
    asked = Asked()
    asked.ask("User:a", [f"{number}" for number in range(MOST)])
    for number in range(10):
        asked.ask(f"User:{number}", NAMES)
        asked.ask("User:b", [])
    assert list(asked.topics._clients) == [("User:a", "10.0.0.1")]


def test_a_long_principal_is_not_remembered() -> None:
    """Clients choose their principal, up to 32 KB."""
    asked = Asked()
    asked.ask("User:" + "x" * 30_000, NAMES)
    assert not asked.topics._clients and asked.topics.count == 0
