"""What is tried in the copy, and how the command ends."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import trial
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.trial import ROOT, Copy, UntestedError, targets, unit_tests

MODULE = Path("storage/rule.py")
RULE = "def is_full(size):\n    return size >= 10\n"
TESTS = "from rule import is_full\ndef test_full():\n    assert is_full(11) and not is_full(3)\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree that serves as its own copy: one module, whose tests do not test the limit value itself."""
    (tmp_path / "storage").mkdir()
    (tmp_path / MODULE).write_text(RULE)
    tests = tmp_path / "tests" / "storage"
    tests.mkdir(parents=True)
    (tests / "test_rule.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text("import sys\nsys.path.insert(0, 'storage')\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")

    @contextmanager
    def as_it_is() -> Iterator[Copy]:
        yield Copy(tmp_path)

    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins take most of the time of dozens of runs
    monkeypatch.setattr(trial, "PYTEST", [each for each in trial.PYTEST if "hypothesis" not in each])
    monkeypatch.setattr(trial, "ROOT", tmp_path)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "copied", as_it_is)
    return tmp_path


def mutant(source: str) -> Mutant:
    return Mutant(2, "", "", source)


def test_the_modules_of_a_package_are_found_through_its_link() -> None:
    found = [target.module for target in targets("kafka_zk/rebalance")]
    assert Path("rebalance/member.py") in found
    assert [target.module for target in targets("rebalance")] == found


def test_a_line_can_be_named() -> None:
    (target,) = targets("rebalance/member.py:12")
    assert (target.module, target.line) == (Path("rebalance/member.py"), 12)


@pytest.mark.parametrize("name", ["no/such/folder", "docs/web", "../.."])
def test_a_path_without_modules_is_refused(name: str) -> None:
    with pytest.raises(UntestedError):
        targets(name)


def test_a_modules_own_tests_come_first() -> None:
    files = unit_tests(Path("rebalance/topic_filter.py"))
    assert files[0] == "tests/rebalance/test_topic_filter.py"
    assert "tests/rebalance/test_assignment.py" in files
    assert all((ROOT / file).is_file() for file in files)


@pytest.mark.integration
def test_a_mutant_that_no_test_notices_survives_and_the_module_comes_back(root: Path) -> None:
    copy = Copy(root)
    copy.check(MODULE)
    assert not copy.is_killed(MODULE, mutant(RULE.replace(">=", ">")))
    assert copy.is_killed(MODULE, mutant(RULE.replace(">=", "<")))
    assert copy.is_killed(MODULE, mutant(RULE.replace(">=", ">==")))
    assert (root / MODULE).read_text() == RULE


@pytest.mark.integration
def test_a_mutant_that_does_not_end_is_killed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "LEAST_LIMIT_S", 0)
    copy = Copy(root)
    copy.check(MODULE)
    assert copy.is_killed(MODULE, mutant(RULE.replace("return", "while True: pass\n    return")))


@pytest.mark.integration
def test_tests_that_fail_by_themselves_judge_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "tests" / "storage" / "test_rule.py").write_text(TESTS.replace("11", "9"))
    assert command.main(["storage"]) == 2
    assert "fail before it is changed" in capsys.readouterr().err


def test_a_module_without_tests_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "tests" / "storage" / "test_rule.py").unlink()
    assert command.main(["storage"]) == 2
    assert "no fast tests" in capsys.readouterr().err


@pytest.mark.integration
def test_survivors_are_listed_and_fail_the_command(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = root / "results" / "mutants.json"
    assert command.main(["storage/rule.py", "--mutants", "0", "--json", str(result)]) == 1
    facts = json.loads(result.read_text())
    survivors = [(survivor["file"], survivor["line"], survivor["after"]) for survivor in facts["survivors"]]
    assert ("storage/rule.py", 2, "return (size > 10)") in survivors
    assert facts["mutants"] == len(mutants_of(RULE)) == facts["killed"] + len(survivors)
    assert "storage/rule.py:2" in capsys.readouterr().out


@pytest.mark.integration
def test_a_rule_whose_limit_is_tested_passes(root: Path) -> None:
    limits = "    assert is_full(10) and not is_full(9)\n"
    (root / "tests" / "storage" / "test_rule.py").write_text(TESTS + limits)
    assert command.main(["storage/rule.py:2"]) == 0


def test_a_seed_draws_the_same_mutants_again() -> None:
    first, again, other = (command.drawn("rebalance/states.py", seed, 5) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 5
