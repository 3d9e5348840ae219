"""Compiled once, kept in a file, loaded without numba; and never code that is for something else."""

import os
import subprocess
import sys
from ctypes import CFUNCTYPE, c_int64
from pathlib import Path

import pytest

from kafka_zk.base.machine_code import MachineCode, machine_code

pytest.importorskip("numba")
llvm = pytest.importorskip("llvmlite.binding")

SOURCE = """
from numba import cfunc, types

@cfunc(types.int64(types.int64, types.int64))
def add(one, other):
    return one + other * FACTOR

def c_functions():
    return {"kafka_zk_test_add": add}
"""
NAME = "kafka_zk_test_add"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module, whose code is kept in ``tmp_path / "kept"``."""
    module = f"made_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(SOURCE.replace("FACTOR", "10"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


def call(code: MachineCode | None, one: int, other: int) -> int:
    assert code is not None
    found: int = CFUNCTYPE(c_int64, c_int64, c_int64)(code.addresses[NAME])(one, other)
    return found


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in tmp_path.rglob("*.o")]


def test_it_is_compiled_once_and_loaded_without_numba(made: str, tmp_path: Path) -> None:
    assert machine_code(made, [NAME], compiles=False) is None
    assert call(machine_code(made, [NAME], compiles=True), 1, 2) == 21
    (file,) = kept(tmp_path)
    program = (
        f"import sys; sys.modules['numba'] = None; sys.pycache_prefix = {sys.pycache_prefix!r}\n"
        "from ctypes import CFUNCTYPE, c_int64\n"
        "from kafka_zk.base.machine_code import machine_code\n"
        f"code = machine_code({made!r}, [{NAME!r}], compiles=False)\n"
        f"print(CFUNCTYPE(c_int64, c_int64, c_int64)(code.addresses[{NAME!r}])(3, 4))\n"
        f"assert {made!r} not in sys.modules"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"43\n"), done.stderr
    assert kept(tmp_path) == [file] and not [*tmp_path.rglob("*.tmp")]


def test_another_source_is_compiled_anew(made: str, tmp_path: Path) -> None:
    assert call(machine_code(made, [NAME], compiles=True), 1, 2) == 21
    (tmp_path / f"{made}.py").write_text(SOURCE.replace("FACTOR", "11"))
    assert machine_code(made, [NAME], compiles=False) is None


@pytest.mark.parametrize("damage", ["cut off", "flipped", "empty"])
def test_a_damaged_file_does_not_count(made: str, tmp_path: Path, damage: str) -> None:
    assert machine_code(made, [NAME], compiles=True) is not None
    (file,) = kept(tmp_path)
    data = file.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    file.write_bytes({"cut off": data[:middle], "flipped": flipped, "empty": b""}[damage])
    assert machine_code(made, [NAME], compiles=False) is None
    assert call(machine_code(made, [NAME], compiles=True), 5, 6) == 65
    assert file.read_bytes() == data


def test_the_cache_folder_of_the_user_will_do(made: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("not a directory")
    assert call(machine_code(made, [NAME], compiles=True), 1, 2) == 21
    assert [path.parent for path in kept(tmp_path)] == [tmp_path / "cache" / "kafka-zk"]
    assert call(machine_code(made, [NAME], compiles=False), 1, 2) == 21


def test_what_cannot_be_kept_is_not_compiled(made: str, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("not a directory")
    (tmp_path / "cache").write_text("not a directory")
    assert machine_code(made, [NAME], compiles=True) is None
    assert made not in sys.modules


def test_without_numba_nothing_is_compiled(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert machine_code(made, [NAME], compiles=True) is None


@pytest.mark.parametrize("source", [SOURCE, SOURCE.replace("one + other", "one.nothing")])
def test_what_numba_cannot_compile_is_done_without(made: str, tmp_path: Path, source: str) -> None:
    """The first source lacks FACTOR: a later numba may refuse what this one takes."""
    (tmp_path / f"{made}.py").write_text(source)
    assert machine_code(made, [NAME], compiles=True) is None
    assert not kept(tmp_path)


def test_without_llvmlite_there_is_none(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    assert machine_code(made, [NAME], compiles=True) is None


def test_code_that_needs_what_is_not_there_is_refused() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = "declare i64 @kafka_zk_nowhere()\ndefine i64 @f() { %r = call i64 @kafka_zk_nowhere() ret i64 %r }"
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(reloc="pic")
    code = machine.emit_object(llvm.parse_assembly(text))
    with pytest.raises(RuntimeError):
        MachineCode(llvm, code, ["f"])
