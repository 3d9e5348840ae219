"""``kafka-zk migration diff`` on the recorded folder and znodes: its output and exit codes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kafka_zk.cli.migration import gathering
from kafka_zk.cli.migration.migration import command
from tests.kafka_zk.migration.metadata.both_sides import RECORDED, RecordedClient, znodes

MIGRATION = b'{"version":0,"kraft_metadata_offset":%d,"kraft_controller_id":3000,"kraft_metadata_epoch":1}'
FIXED = {"/config/topics/broken": b'{"version":1,"config":{}}'}


class Client(RecordedClient):
    """A client whose znodes become ``later`` while the command waits."""

    def __init__(self, znodes: Mapping[str, bytes], hidden: str, later: Mapping[str, bytes]) -> None:
        super().__init__(znodes, hidden)
        self._later = later

    def process(self, timeout_ms: int) -> None:
        self._znodes = self._later


class Runner:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def diff(
        self, *more: str, changed: Mapping[str, bytes] | None = None, later: Mapping[str, bytes] | None = None,
        hidden: str = "", folder: Path = RECORDED,
    ) -> Result:  # fmt: skip
        now = {**znodes(), **(changed or {})}
        client = Client(now, hidden, {**now, **(later or {})})

        @contextmanager
        def opened(sources: gathering.Sources) -> Iterator[Any]:
            yield client

        self._monkeypatch.setattr(gathering.Sources, "opened", opened)
        return CliRunner().invoke(command, ["diff", "--zookeeper", "zk", "--controller-log-dir", str(folder), *more])


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(monkeypatch)


def test_a_difference(run: Runner) -> None:
    done = run.diff()
    assert done.exit_code == 1
    assert "topic broken" in done.stdout and "Order: both sides are at offset 64\n" in done.stdout
    assert done.stdout.endswith("Differences: configuration 1\n")


def test_a_document(run: Runner) -> None:
    document = json.loads(run.diff("--json").stdout)
    (difference,) = document["differences"]
    assert (difference["name"], difference["kraft"]) == ("topic broken", "absent")
    assert document["log"] == {"source": f"{RECORDED}/__cluster_metadata-0", "end_offset": 65,
                               "migration_state": "MIGRATION"}  # fmt: skip
    assert document["zookeeper_offset"] == 64 and document["not_compared"] == []


def test_both_sides_are_equal(run: Runner) -> None:
    done = run.diff(changed=FIXED)
    assert done.exit_code == 0 and done.stdout.endswith("Nothing differs\n")


def test_a_change_that_arrives_a_moment_later_is_no_difference(run: Runner) -> None:
    assert run.diff(later=FIXED).exit_code == 0


def test_a_difference_whose_values_change_is_still_one(run: Runner) -> None:
    path = "/config/topics/orders"
    first, second = (b'{"version":1,"config":{"cleanup.policy":"%b"}}' % each for each in (b"x", b"y"))
    done = run.diff("--json", changed={**FIXED, path: first}, later={path: second})
    found = {each["field"]: each["zookeeper"] for each in json.loads(done.stdout)["differences"]}
    assert done.exit_code == 1 and found["cleanup.policy"] == "y"


@pytest.mark.parametrize("offset", [60, 70])
def test_a_side_that_stays_older_is_not_equal(run: Runner, offset: int) -> None:
    older = MIGRATION % offset
    done = run.diff(changed={**FIXED, "/migration": older})
    assert done.exit_code == 2 and "is older" in done.stdout
    assert done.stdout.endswith("Nothing differs, but the two sides are not at the same offset\n")
    assert run.diff(changed={**FIXED, "/migration": older}, later={"/migration": MIGRATION % 64}).exit_code == 0


def test_what_zookeeper_hides(run: Runner) -> None:
    done = run.diff(changed=FIXED, hidden="/config/users")
    assert done.exit_code == 2 and "does not let this client read /config/users" in done.stdout


def test_a_log_that_cannot_be_read(run: Runner, tmp_path: Path) -> None:
    done = run.diff(folder=tmp_path)
    assert done.exit_code == 2 and "it contains no metadata log" in done.stdout
    assert done.stdout.endswith("Nothing was compared\n")


def test_no_zookeeper() -> None:
    done = CliRunner().invoke(command, ["diff"], env={"KAFKA_ZK_ZOOKEEPER": ""})
    assert done.exit_code == 2 and "give --zookeeper" in done.stderr
