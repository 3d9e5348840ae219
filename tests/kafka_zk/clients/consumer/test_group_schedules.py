"""Our members and our coordinator under random schedules, by seed: each partition has one owner, and no member gets
stuck.
"""

from __future__ import annotations

from tests.kafka_zk.clients.consumer.group_world import REBALANCE_MS, SESSION_MS, Consumer, World

STRIKES = 30
REST_MS = 4 * (SESSION_MS + REBALANCE_MS) + 10_000
EAGER: list[tuple[str, ...]] = [("range",), ("range", "roundrobin"), ("range", "cooperative-sticky")]
COOPERATIVE: list[tuple[str, ...]] = [("cooperative-sticky",)]


def storm(world: World) -> None:
    choices = world.random.choice([EAGER, COOPERATIVE])
    for _ in range(world.random.randint(1, 4)):
        world.add(world.random.choice(choices))
    for _ in range(STRIKES):
        world.run(world.random.choice((50, 500, 2_000, 5_000)))
        strike(world, choices)
    world.lose = world.fail_store = world.delay = 0.0
    world.run(REST_MS)
    grow(world)  # as in Kafka, a static leader that returned does not know earlier changes
    world.run(REST_MS)


def grow(world: World) -> None:
    """Add a partition to a topic."""
    world.counts[world.random.choice(sorted(world.counts))] += 1
    for each in world.living():
        world.apply(each, each.member.partitions_changed(world.counts, world.ms))


def strike(world: World, assignors: list[tuple[str, ...]]) -> None:
    rng = world.random
    living = world.living()
    what = rng.choice(("join", "static", "leave", "kill", "freeze", "busy", "move", "grow", "away"))
    topics = rng.choice((("a",), ("a", "b"), ("a", "b")))
    if what == "join" and len(living) < 6:
        world.add(rng.choice(assignors), topics)
    elif what == "static" and len(living) < 6:
        world.add(rng.choice(assignors), topics, f"i{rng.randint(0, 2)}")
    elif what == "move":
        world.move_coordinator(rng.choice((0, 1_000, 8_000)))
    elif what == "grow":
        grow(world)
    elif living:
        _strike_one(world, rng.choice(living), what)


def _strike_one(world: World, victim: Consumer, what: str) -> None:
    rng = world.random
    if what == "leave":
        world.leave(victim)
    elif what == "kill":
        world.kill(victim)
    elif what == "freeze":
        victim.frozen_until_ms = world.ms + rng.choice((1_000, 5_000, 15_000))
    elif what == "busy":
        victim.busy_until_ms = world.ms + rng.choice((2_000, 8_000, 20_000))
    elif what == "away":
        world.apply(victim, victim.member.give_up("poll timeout"))
        world.later(rng.choice((500, 5_000)), lambda: _come_back(world, victim))


def _come_back(world: World, consumer: Consumer) -> None:
    if consumer.alive and consumer.failed is None:
        world.apply(consumer, consumer.member.come_back(world.ms))


def test_whatever_happens_each_partition_has_one_owner_and_nobody_is_stuck(campaign_seed: int) -> None:
    world = World(campaign_seed, lose=0.05, fail_store=0.05, delay=0.1)
    storm(world)
    assert world.broken == []
    assert world.at_rest() == ""
