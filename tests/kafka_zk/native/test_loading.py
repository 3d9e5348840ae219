"""Which implementation runs: chosen by KAFKA_ZK_NATIVE, never a stale module, and never in silence."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_zk.native import loading, sources
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
from kafka_zk.native.sources import fingerprint

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


def test_a_module_without_its_sources_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker starts nevertheless, as pure Python."""
    monkeypatch.setattr(loading, "_FOLDER", tmp_path)
    found = chosen(WHERE_BUILT, stale)
    assert found.native is None and "sources cannot be read" in found.problem


def test_a_module_of_before_the_fingerprint_is_stale() -> None:
    assert STALE in chosen(WHERE_BUILT, lambda: SimpleNamespace()).problem


def test_the_fingerprint_is_the_same_on_every_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One build serves all Python versions."""
    monkeypatch.setattr(sources, "SOURCES", ("one.c", "two.c"))
    monkeypatch.setattr(sources, "HEADERS", ("one.h",))
    for name in ("one.c", "two.c", "one.h"):
        (tmp_path / name).write_bytes(name.encode())
    assert fingerprint(tmp_path) == "e8cbd032334a0597"


def test_formats_mean_the_same_on_every_python() -> None:
    """A '#' means int or Py_ssize_t, as the headers say; built with those of 3.13, it raises SystemError in 3.11."""
    text = Path(loading.__file__).with_name("module.c").read_text()
    code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    assert [line for line in code.splitlines() if "#" in line and not line.startswith("#")] == []


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
