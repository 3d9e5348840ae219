"""The output of ``tier check``, with a reader of facts that needs no broker."""

import json
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import pytest

from kafka_zk.cli.main import run
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata
from kafka_zk.storage.tiered.tier_check import LogFacts, TierFacts, TopicFacts
from tests.storage.tiered.segments import FINISHED, T, segment, update

LAYOUT = LocalTieredStorageLayout()


class Looks:
    """A reader whose successive looks return these facts. Every segment has ten offsets. ``lost``: segments without
    objects.
    """

    def __init__(self, *looks: tuple[int, range]) -> None:
        self._looks = [self._facts(count, lost) for count, lost in looks]

    def __call__(self, *arguments: Any) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *arguments: object) -> None:
        assert not self._looks

    def look(self, older_than_ms: int) -> TierFacts:
        return self._looks.pop(0)

    def _facts(self, count: int, lost: range) -> TierFacts:
        metadata = RemoteLogMetadata()
        objects: dict[str, int] = {}
        for number in range(count):
            made = segment(number, 10 * number, 10 * number + 9)
            metadata.apply(made)
            metadata.apply(update(made, FINISHED))
            if number not in lost:
                objects |= {each.key: each.size_bytes or 0 for each in LAYOUT.objects(made, None)}
        topics: dict[UUID, TopicFacts] = {T.topic_id: TopicFacts("t", True)}
        return TierFacts(0, 0, topics, {T: LogFacts(0, 10 * count, [(0, 0)])}, metadata, LAYOUT, objects)


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command on looks; returns its exit code and output."""

    def command(looks: Looks, *options: str) -> tuple[int, str]:
        monkeypatch.setattr("kafka_zk.cli.tier.gathering.TierReader", looks)
        code = run(["tier", "check", "--storage", str(tmp_path), *options])
        return code, capsys.readouterr().out

    return command


def test_clean_tier_needs_one_look(check: Any) -> None:
    code, shown = check(Looks((3, range(0))))
    assert code == 0
    assert shown.splitlines()[-1] == "0 problems, 0 not checked"
    assert shown.startswith("3 segments of 300 bytes can be read")


def test_only_what_two_looks_find_is_wrong(check: Any) -> None:
    """Only problems found by both looks count: one segment was deleted between two requests of the first look, another
    one in the second.
    """
    assert check(Looks((3, range(1)), (3, range(1, 2))))[0] == 0
    code, shown = check(Looks((3, range(2)), (3, range(1, 3))))
    assert code == 1
    assert "missing object t-0: offsets 10 to 19: " in shown and "offsets 20" not in shown


def test_many_problems_are_counted_and_listed_as_json(check: Any) -> None:
    """With a wrong address, all objects are missing."""
    lost = (100, range(100))
    code, shown = check(Looks(lost, lost))
    assert code == 1
    assert "missing object: 80 more, which --json lists" in shown
    assert shown.splitlines()[1].split() == ["missing", "object", "t", "0", "100", "0"]
    assert len(shown.splitlines()) < 30
    assert len(json.loads(check(Looks(lost, lost), "--json")[1])["findings"]) == 100
