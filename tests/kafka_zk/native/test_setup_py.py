"""What setup.py declares for each value of KAFKA_ZK_NATIVE; tests/integration/installed builds it."""

import runpy
import sys
import sysconfig
from types import SimpleNamespace

import pytest

from tests.integration.processes import ROOT


def declared(monkeypatch: pytest.MonkeyPatch, choice: str, *, is_free_threaded: bool = False) -> SimpleNamespace | None:
    """The native module's declaration, with a stand-in for setuptools; None if it is left out. Raises: SystemExit."""
    found: list[SimpleNamespace] = []
    stand_in = SimpleNamespace(
        Extension=lambda name, sources, **options: SimpleNamespace(name=name, sources=sources, **options),
        setup=lambda ext_modules, **_: found.extend(ext_modules),
    )
    monkeypatch.setitem(sys.modules, "setuptools", stand_in)
    monkeypatch.setitem(sys.modules, "setuptools.command.build_ext", SimpleNamespace(build_ext=object))
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: int(is_free_threaded))
    monkeypatch.setenv("KAFKA_ZK_NATIVE", choice)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    return found[0] if found else None


@pytest.mark.parametrize(("choice", "is_optional"), [("", True), ("1", True), ("require", False)])
def test_it_is_optional_unless_it_is_required(
    choice: str, is_optional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = declared(monkeypatch, choice)
    assert native is not None and native.optional is is_optional
    assert {"setup.py", "kafka_zk/native/records.h"} <= set(native.depends), "a change builds it again"


@pytest.mark.parametrize(("choice", "is_free_threaded"), [("0", False), ("0", True), ("1", True), ("", True)])
def test_it_is_left_out(choice: str, is_free_threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert declared(monkeypatch, choice, is_free_threaded=is_free_threaded) is None


@pytest.mark.parametrize(("choice", "is_free_threaded"), [("yes", False), ("require", True)])
def test_what_cannot_be_built_is_refused(choice: str, is_free_threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=f"KAFKA_ZK_NATIVE is '{choice}'"):
        declared(monkeypatch, choice, is_free_threaded=is_free_threaded)
