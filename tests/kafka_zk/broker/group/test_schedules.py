"""A group under random schedules, by seed: each generation has one assignment, and no member waits indefinitely."""


from tests.kafka_zk.broker.group.clients import REBALANCE_MS, SESSION_MS, World

STRIKES = 30
REST_MS = 3 * (SESSION_MS + REBALANCE_MS) + 5_000


def storm(world: World) -> None:
    random = world.random
    for _ in range(random.randint(1, 5)):
        world.add(protocols=random.choice([("range",), ("cooperative-sticky", "range"), ("range", "roundrobin")]))
    for _ in range(STRIKES):
        world.run(random.choice((50, 200, 1_000, 4_000)))
        strike(world)
    world.lose = world.fail_store = world.delay = 0.0
    world.run(REST_MS)


def strike(world: World) -> None:
    random = world.random
    living = [client for client in world.clients if client.alive and not client.fenced]
    static = [client for client in living if client.group_instance_id is not None]
    what = random.choice(("join", "static", "static back", "twin", "leave", "kill", "slow", "forget", "change"))
    if what == "join" and len(living) < 8:
        world.add(protocols=("range",))
    elif what == "static" and len(living) < 8:
        world.add(group_instance_id=f"i{random.randint(0, 2)}")
    elif what == "static back" and static:
        victim = random.choice([client for client in static if client.unsynced is not None] or static)
        world.kill(victim)
        world.add(group_instance_id=victim.group_instance_id)
    elif what == "twin" and static:
        world.add(group_instance_id=random.choice(static).group_instance_id)
    elif what == "slow" and living:
        random.choice(living).slow_until_ms = world.ms + random.choice((3_000, 15_000, 25_000))
    elif what == "leave" and living:
        world.leave(random.choice(living))
    elif what == "kill" and living:
        world.kill(random.choice(living))
    elif what == "forget" and living:
        world.forget_answer(random.choice([client for client in living if client.waits is not None] or living))
    elif what == "change" and living:
        client = random.choice(living)
        client.protocols = random.choice([("range",), ("range", "roundrobin"), ("cooperative-sticky", "range")])
        client.needs_to_join = True


def test_whatever_happens_the_group_comes_to_rest(campaign_seed: int) -> None:
    world = World(campaign_seed, lose=0.1, fail_store=0.1, delay=0.2)
    storm(world)
    assert world.broken == []
    assert world.is_at_rest(), (world.group.state, world.clients)
