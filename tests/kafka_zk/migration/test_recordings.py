"""The doctor examines recorded clusters: Kafka 2.4 to 3.9, each phase, each rollback, each trap, secured or not."""

from contextlib import nullcontext
from functools import cache

import pytest
from click.testing import CliRunner

from kafka_zk.cli.migration.check import check
from kafka_zk.cli.migration.gathering import Sources
from kafka_zk.cli.migration.status import status as status_command
from kafka_zk.migration.facts import ClusterFacts, Unknown
from kafka_zk.migration.finding import Finding, Verdict
from kafka_zk.migration.phase import Status, status
from kafka_zk.migration.rules import RULES, examine_all
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.migration.expected import EXPECTED, outcome
from tests.kafka_zk.migration.recording import FOLDER, facts_of, load, unpacked

SECRETS = "admin-secret", "bob-secret", "zookeeper-secret", "key-secret", "stored_key", "salt="
"""Passwords of the recorded clusters, and keys of SCRAM credentials."""


@cache
def facts(name: str) -> ClusterFacts:
    return facts_of(load(name))


def findings_of(name: str) -> dict[str, Finding]:
    return {each.rule.name: each for each in examine_all(facts(name))}


def status_of(name: str) -> Status:
    return status(facts(name))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_cluster(name: str) -> None:
    assert outcome(facts(name)) == EXPECTED[name]


def test_every_recording_has_an_expectation() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(EXPECTED)


_OTHERWISE_TESTED = {"zookeeper-clients"}
"""A recording has one address for everything, and no sessions; test_connections has a server's responses."""


@pytest.mark.parametrize("name", sorted({rule.name for rule in RULES} - _OTHERWISE_TESTED))
def test_every_rule_finds_its_trap_in_a_recorded_cluster(name: str) -> None:
    assert any(name in expected.traps for expected in EXPECTED.values()), "record a cluster with this trap"


UNTIL = {
    "reassignments": ("two-dirs-and-a-move-3.6.2", "two-dirs-and-a-move-3.7.2"),
    "several-log-dirs": ("two-dirs-and-a-move-3.6.2", "two-dirs-and-a-move-3.7.2"),
    "delegation-tokens": ("tokens-3.4.1", "tokens-3.6.2"),
    "scram-users": ("tokens-3.4.1", "tokens-3.6.2"),
    "producer-ids": ("release-3.4.1", "release-3.7.2"),
}
"""Rule -> a cluster with the trap, and one of a release in which the same state is not a trap."""

_NOT_VISIBLE = {"migration-znode-empty"}
"""The doctor cannot tell 3.9.2 from 3.9.1."""


@pytest.mark.parametrize("rule", UNTIL)
def test_a_trap_that_a_release_has_removed(rule: str) -> None:
    before, since = UNTIL[rule]
    assert findings_of(before)[rule].verdict is Verdict.TRAP
    assert findings_of(since)[rule].verdict is Verdict.CLEAN


def test_every_limit_is_tested() -> None:
    assert {rule.name for rule in RULES if rule.until} == UNTIL.keys() | _NOT_VISIBLE


_DESCRIBE_LOG_DIRS = f"{int(ApiKey.DESCRIBE_LOG_DIRS)}."
ZOOKEEPERS = {"2.4.1": "3.5.7", "2.8.2": "3.5.9", "3.3.2": "3.6.3", "3.6.2": "3.8.4", "3.9.1": "3.8.4"}


@pytest.mark.parametrize("release", ZOOKEEPERS)
def test_each_release_was_recorded_with_its_own_zookeeper(release: str) -> None:
    words = load(f"release-{release}").four_letter_words
    assert words["srvr"].startswith(f"Zookeeper version: {ZOOKEEPERS[release]}")
    assert "127.0.0.1" in words["cons"]


@pytest.mark.parametrize("name", ["release-2.4.1", "two-dirs-and-a-move-3.6.2", "two-dirs-and-a-move-3.7.2"])
def test_the_log_dirs_are_those_that_the_broker_describes(name: str) -> None:
    recording = load(name)
    assert recording.bootstrap is not None
    answers = recording.answers[recording.bootstrap]
    ((version, body),) = [
        (int(name.partition(".")[2]), body) for name, body in answers.items() if name.startswith(_DESCRIBE_LOG_DIRS)
    ]
    described = codec.decode_response(ApiKey.DESCRIBE_LOG_DIRS, version, unpacked(body))
    brokers = facts(name).brokers
    assert not isinstance(brokers, Unknown) and not isinstance(brokers[0].configs, Unknown)
    assert {each.log_dir for each in described.results} == set((brokers[0].configs["log.dirs"] or "").split(","))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("waiting-for-a-restart", "broker 1 is in ZooKeeper mode"),
        ("waiting-with-an-older-protocol", "inter.broker.protocol.version=3.4"),
        ("controller-without-flag", "controller 3000 was started without the migration flag"),
        ("malformed", "/migration has no data"),
        ("finalised-too-early", "broker 1 is in migration mode"),
    ],
)
def test_it_is_not_safe_to_continue(name: str, text: str) -> None:
    advice = status_of(name).proceed
    assert advice.is_safe is False and text in advice.text


# --- the way back ---


@pytest.mark.parametrize(
    ("name", "is_safe", "text"),
    [
        ("waiting-for-a-restart", True, "stop the controllers, and restart the brokers"),
        ("dual-write", True, "stop all controllers, then delete /controller, then delete /migration"),
        ("brokers-moved", True, "restart the KRaft brokers in migration mode, then stop all controllers"),
        ("controllers-stopped", True, "delete /controller, then delete /migration"),
        ("migration-not-deleted", True, "stop all controllers, then delete /migration"),
        ("controller-deleted-too-early", True, "stop all controllers, then delete /migration"),
        ("epoch-ahead", False, "(KAFKA-20488): set /controller_epoch to at least"),
        ("rolled-back", True, "ZooKeeper has no trace of a migration"),
        ("finalised", False, "changes no longer reach ZooKeeper"),
    ],
)
def test_the_way_back(name: str, is_safe: bool, text: str) -> None:
    advice = status_of(name).roll_back
    assert (advice.is_safe, text in advice.text) == (is_safe, True), advice


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("controllers-stopped", "no controller can be reached, and none writes /migration"),
        ("migration-not-deleted", "/migration was not deleted"),
        ("controller-deleted-too-early", "/controller was deleted while controllers run"),
        ("copy-aborted", "no copy is under way, and no controller can be reached"),
    ],
)
def test_a_rollback_that_is_not_finished_is_named(name: str, sign: str) -> None:
    found = status_of(name)
    assert sign in found.sign and "a rollback is not finished" in found.proceed.text


def test_the_status_names_what_aborted_the_copy() -> None:
    text = status_of("copy-aborted").proceed.text
    assert ": the copy was aborted, or a rollback is not finished; " in text and "/config/clients/app" in text


# --- permissions ---

_NEED_AN_IDENTITY = {
    "malformed-configs", "malformed-entities", "encrypted-passwords", "protected-znodes", "scram-users",
}  # fmt: skip
_NEED_DESCRIBE_CONFIGS = {
    "protocol-versions", "generated-broker-ids", "several-log-dirs", "policies", "refused-settings",
    "controllers-without-authorizer", "super-users",
}  # fmt: skip
_NEED_ADDRESSES_OF_CONTROLLERS = {"protocol-and-metadata-version", "controller-cluster-ids", "controller-ids"}
_NEED_FILES = {"meta-properties"}
NOT_CHECKED: dict[str, set[str]] = {
    "secured-waiting": set(),
    "secured-waiting-few": {
        *_NEED_AN_IDENTITY, *_NEED_DESCRIBE_CONFIGS, *_NEED_ADDRESSES_OF_CONTROLLERS, *_NEED_FILES,
        "controllers-without-flag", "kraft-brokers-too-early", "left-over-metadata-log",
    },
    "secured-waiting-scram": {
        *_NEED_FILES, "controller-cluster-ids", "super-users", "kraft-brokers-too-early", "left-over-metadata-log",
    },
    "secured-dual-write": set(),
    "secured-dual-write-few": {
        *_NEED_AN_IDENTITY, *_NEED_DESCRIBE_CONFIGS, *_NEED_ADDRESSES_OF_CONTROLLERS, *_NEED_FILES,
        "finalized-too-early",
    },
}  # fmt: skip
"""The cases: with all permissions and files, without any, and with a login that only the brokers accept."""


@pytest.mark.parametrize("name", NOT_CHECKED)
def test_what_permissions_hide(name: str) -> None:
    found = findings_of(name)
    assert {each.rule.name for each in found.values() if each.verdict is Verdict.NOT_CHECKED} == NOT_CHECKED[name]


def test_a_controller_that_refuses_the_login_shows_that_it_is_ready() -> None:
    controllers = facts("secured-waiting-scram").controllers
    assert not isinstance(controllers, Unknown) and not isinstance(controllers[0].api, Unknown)
    assert controllers[0].api.is_migration_ready


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_not_checked_has_a_reason_and_a_remedy(name: str) -> None:
    for finding in findings_of(name).values():
        assert all(each.reason and each.remedy for each in finding.missing)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_the_commands_show_no_secret_and_no_traceback(
    name: str, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sources, "opened", lambda _: nullcontext())
    monkeypatch.setattr("kafka_zk.cli.migration.check.gather", lambda *_: facts(name))
    monkeypatch.setattr("kafka_zk.cli.migration.status.gather", lambda *_: facts(name))
    for command, codes in ((check, {0, 1, 2}), (status_command, {0})):
        done = CliRunner().invoke(command, ["--zookeeper", "zk:2181", *more])
        assert done.exit_code in codes and isinstance(done.exception, SystemExit | None), done.exception
        assert not [secret for secret in SECRETS if secret in done.output]


def test_traps_come_before_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sources, "opened", lambda _: nullcontext())
    monkeypatch.setattr("kafka_zk.cli.migration.check.gather", lambda *_: facts("broker-down"))
    output = CliRunner().invoke(check, ["--zookeeper", "zk:2181"]).stdout
    assert output.startswith("TRAP brokers-missing") and output.index("Not checked:") < output.index("RESULT")


def test_a_trap_says_since_which_release_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sources, "opened", lambda _: nullcontext())
    monkeypatch.setattr("kafka_zk.cli.migration.check.gather", lambda *_: facts("two-dirs-and-a-move-3.6.2"))
    output = CliRunner().invoke(check, ["--zookeeper", "zk:2181"]).output
    _, _, text = output.partition("TRAP several-log-dirs (KAFKA-16431)")
    assert "No trap since: 3.7.0" in text.partition("TRAP")[0]
