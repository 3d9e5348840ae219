"""After any sequence of requests the group is consistent, no request waits indefinitely, and the next good member is
served.

One round is 2,000 requests; a million: ``pytest tests/kafka_zk/broker/group/test_hostile_requests.py --rounds 500``.
"""

from tests.kafka_zk.broker.group.hostile_requests import HostileWorld

REQUESTS_PER_ROUND = 2_000


def test_hostile_requests_break_no_group(campaign_seed: int) -> None:
    world = HostileWorld(campaign_seed)
    for _ in range(REQUESTS_PER_ROUND):
        world.strike()
        assert world.broken == []
    assert world.answers > REQUESTS_PER_ROUND / 10
    assert world.comes_to_rest(), (world.group.state, world._waiting, world.group.members.ids)
    assert world.serves_a_good_member()
    assert world.broken == []
