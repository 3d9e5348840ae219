"""confluent-kafka, kafka-python, aiokafka, franz-go and sarama in one group, kafkajs in a separate group: members and
the broker are killed, paused and restarted, and every record is read, no partition has two owners, no offset goes back.

`--rounds 100` makes the test that long; `--seed` changes the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers import foreign_programs, targets
from tests.peers.groups import faulty_coordinator
from tests.peers.groups.group_rounds import OVERRIDES, GroupRounds
from tests.peers.processes import ProcessFailed
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_TIME_TO_READ_S = 3
_CHANCES = 3
"""How often a fault gets the chance to show: a rebalance that finds everything read and committed shows none."""

StartTarget = Callable[[str], Target]


@pytest.fixture(scope="module", autouse=True)
def foreign_clients() -> None:
    """Build the Go and Node programs. If that is impossible, the test fails (it is never skipped), and says what is
    missing."""
    try:
        for name in foreign_programs.GO_PROGRAMS:
            foreign_programs.go_program(name)
        for name in foreign_programs.NODE_PROGRAMS:
            foreign_programs.node_folder(name)
    except foreign_programs.NotBuilt as failure:
        pytest.fail(str(failure), pytrace=False)


@pytest.fixture
def start(peer_zookeeper: str, tmp_path: Path) -> Iterator[StartTarget]:
    """`start(name)`: one broker of a target, in a chroot of its own; the broker must stop cleanly."""
    started: list[Target] = []

    def start(name: str) -> Target:
        chroot = f"group-rounds-{tmp_path.name}-{name}"
        try:
            target = targets.start(name, peer_zookeeper, tmp_path / name, overrides=OVERRIDES, chroot=chroot)
        except ProcessFailed as failure:
            pytest.fail(str(failure), pytrace=False)
        started.append(target)
        return target

    yield start
    complaints = [complaint for target in started for complaint in target.stop()]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("name", targets.NAMES)
def test_whatever_happens_nothing_is_lost_owned_twice_or_taken_back(
    name: str, start: StartTarget, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    rounds = GroupRounds(start(name), pytestconfig.getoption("seed"), tmp_path / "members")
    try:
        rounds.run(pytestconfig.getoption("rounds"))
        assert not (found := rounds.judge()), "\n".join(found)
    finally:
        rounds.close()
    print(rounds.summary())


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("take every commit", "goes back from"),
        ("give all members one share", "was given"),
        ("skip records", "records were handed to no member"),
        ("store no commit", "is committed, but it is not stored"),
    ],
)
def test_a_coordinator_that_lacks_a_safeguard_is_found(
    fault: str, said: str, start: StartTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(faulty_coordinator.VARIABLE, fault)
    target = start(targets.KAFKA_ZK)
    target.restart(module=faulty_coordinator.__name__)
    rounds = GroupRounds(target, 0, tmp_path / "members")
    try:
        for _ in range(_CHANCES):
            rounds.act("pause beyond the session", rounds.member("sarama"))
            rounds.settle()
        rounds.commit_late()
        found = rounds.judge(_TIME_TO_READ_S)
    finally:
        rounds.close()
    assert any(said in fault for fault in found), found
