"""A transactional id under random schedules, by seed: transactions are atomic, producers fenced, and none stays open.
"""

from tests.kafka_zk.broker.transaction.world import TIMEOUT_MS, Client, World

STRIKES = 25


def storm(world: World) -> None:
    random = world.random
    for number in range(STRIKES):
        world.run(random.choice((50, 200, 1_000, 2_500)))
        if number == 0 or random.random() < 0.25:
            world.clients.append(Client(world, len(world.clients)))
        if random.random() < 0.3:
            world.move()
    world.trouble = 0.0
    for client in world.clients:
        client.stops = True
    world.run(10 * TIMEOUT_MS)


def test_whatever_happens_transactions_are_atomic(campaign_seed: int) -> None:
    world = World(campaign_seed)
    storm(world)
    assert world.faults() == []


def test_the_schedules_reach_what_they_are_for() -> None:
    """The schedules include commits, aborts, fenced producers and moved coordinators."""
    committed = aborted = fenced = moved = 0
    for seed in range(30):
        world = World(seed)
        storm(world)
        committed += sum(world.told.values())
        aborted += len(world.told) - sum(world.told.values())
        fenced += sum(client.phase == "dead" for client in world.clients)
        moved += world.epoch
    assert min(committed, aborted, fenced, moved) > 20, (committed, aborted, fenced, moved)
