"""Each reason to refuse a release, and its sentence."""

import pytest

from tests.release.refusals import Facts, refusals, reminders

READY = Facts(
    asked="0.2.0",
    declared="0.2.0",
    quoted=[("docker/compose.yml", "0.2.0")],
    changed=[],
    tags=["v0.1.0"],
    tags_of_head=[],
    changelog="# Changelog\n\n## 0.2.0 (unreleased)\n\nText.\n\n## 0.1.0 (2026-12-01)\n\nText.\n",
    readme="pip install kafka-zk",
    repository="https://example.org/someone/kafka-zk",
)


def test_a_repository_that_is_ready_is_released() -> None:
    assert list(refusals(READY)) == [] == list(reminders(READY))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (READY._replace(asked="0.3.0"), "kafka_zk/__init__.py says 0.2.0, not 0.3.0"),
        (READY._replace(quoted=[("docker/compose.yml", "0.1.0")]), "docker/compose.yml names version 0.1.0"),
        (READY._replace(changed=[" M README.md", "?? notes"]), "has 2 uncommitted changes, such as ' M README.md'"),
        (READY._replace(tags=["v0.1.0", "v0.2.0"]), "The tag v0.2.0 exists"),
        (READY._replace(changelog="## 0.2.0 (2027-01-01)\n"), "CHANGELOG.md already has a section for 0.2.0"),
    ],
)
def test_each_reason_is_one_sentence(facts: Facts, words: str) -> None:
    [sentence] = refusals(facts)
    assert words in sentence and sentence.endswith(".") and "\n" not in sentence


def test_a_tag_is_built_only_from_its_own_commit() -> None:
    tagged = READY._replace(tags=["v0.2.0"], changelog="## 0.2.0 (2027-01-01)\n")
    [sentence] = refusals(tagged, at_tag=True)
    assert sentence == "The commit that is checked out has no tag v0.2.0: check out v0.2.0."
    assert list(refusals(tagged._replace(tags_of_head=["v0.2.0"]), at_tag=True)) == []


def test_a_rehearsal_reminds_of_what_a_release_needs() -> None:
    found = list(reminders(READY._replace(readme="kafka-zk\nis not on PyPI", repository="")))
    assert [sentence.partition(" ")[0] for sentence in found] == ["README.md", "The"]
