"""Which distributions a machine tries."""

import sys
from pathlib import Path

import pytest

from tests.wheels import first_test
from tests.wheels.first_test import runnable

NATIVE = "kafka_zk-0.1.0-cp311-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
PURE, SDIST = "kafka_zk-0.1.0-py3-none-any.whl", "kafka_zk-0.1.0.tar.gz"


def test_a_machine_tries_what_it_can_run_and_always_the_sdist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("kafka_zk-0.1.0-cp311-abi3-musllinux_1_2_x86_64.whl", "kafka_zk_zookeeper-3.9.5-py3-none-any.whl")
    for name in (NATIVE, PURE, SDIST, *others):
        (tmp_path / name).touch()
    monkeypatch.setattr(first_test, "_tags", lambda _: ["cp311-abi3-manylinux_2_17_x86_64", "py3-none-any"])
    assert [path.name for path in runnable(tmp_path, Path(sys.executable))] == [NATIVE, PURE, SDIST]
    monkeypatch.setattr(first_test, "_tags", lambda _: ["py3-none-any"])
    assert [path.name for path in runnable(tmp_path, Path(sys.executable))] == [PURE, SDIST]


def test_the_tags_of_an_interpreter_are_those_of_its_pip() -> None:
    assert "py3-none-any" in first_test._tags(Path(sys.executable))
