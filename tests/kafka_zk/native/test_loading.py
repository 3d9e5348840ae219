"""Which implementation runs: chosen by KAFKA_ZK_NATIVE, never a stale module, and never in silence."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kafka_zk.native.loading import (
    CHOICES,
    NEVER,
    REQUIRE,
    VARIABLE,
    WHERE_BUILT,
    Implementation,
    Native,
    NativeUnusable,
    chosen,
)

STALE = "built from other sources"


def stale() -> object:
    return SimpleNamespace(SOURCES="0" * 16)


def unloadable() -> object:
    raise ImportError("wrong ELF class")


def missing() -> object:
    raise ModuleNotFoundError


def test_it_is_used_where_it_was_built(native: Native) -> None:
    for choice in (WHERE_BUILT, REQUIRE):
        assert chosen(choice) == Implementation(native)
    assert str(chosen(REQUIRE)) == "native"


def test_it_can_be_turned_off() -> None:
    found = chosen(NEVER)
    assert found.native is None and not found.problem
    assert str(found) == "pure Python: KAFKA_ZK_NATIVE is 0"


def test_without_it_python_runs() -> None:
    found = chosen(WHERE_BUILT, missing)
    assert found.native is None and not found.problem
    assert str(found) == "pure Python: the native module is not built"


@pytest.mark.parametrize(("load", "problem"), [(stale, STALE), (unloadable, "wrong ELF class")])
def test_one_that_does_not_fit_is_a_problem(load: object, problem: str) -> None:
    found = chosen(WHERE_BUILT, load)  # type: ignore[arg-type]
    assert found.native is None and problem in found.problem and problem in str(found)


@pytest.mark.parametrize(("load", "problem"), [(stale, STALE), (unloadable, "wrong ELF class"), (missing, "not built")])
def test_who_requires_it_gets_no_other(load: object, problem: str) -> None:
    with pytest.raises(NativeUnusable, match=f"KAFKA_ZK_NATIVE is require, but .*{problem}"):
        chosen(REQUIRE, load)  # type: ignore[arg-type]


def test_another_value_is_refused() -> None:
    with pytest.raises(NativeUnusable, match="'yes'; it must be one of 0, 1, require"):
        chosen("yes")


def version(**variables: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, **variables}
    command = [sys.executable, "-m", "kafka_zk", "--version"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_the_command_says_what_runs(native: Native) -> None:
    shown = {choice: version(**{VARIABLE: choice}) for choice in ("", *CHOICES)}
    assert [done.returncode for done in shown.values()] == [0, 0, 0, 0]
    assert shown[""].stdout == shown[WHERE_BUILT].stdout == shown[REQUIRE].stdout
    assert shown[REQUIRE].stdout.startswith("kafka-zk, version ") and shown[REQUIRE].stdout.endswith(" (native)\n")
    assert shown[NEVER].stdout.endswith(" (pure Python: KAFKA_ZK_NATIVE is 0)\n")


@pytest.mark.slow
def test_the_command_refuses_another_value() -> None:
    done = version(**{VARIABLE: "yes"})
    assert done.returncode == 1
    assert done.stderr == "Error: KAFKA_ZK_NATIVE is 'yes'; it must be one of 0, 1, require\n"
