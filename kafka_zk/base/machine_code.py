"""Machine code that numba compiles once and that is then loaded from a file without numba.

Importing numba takes as much CPU time as cleaning 100 MB of a log; linking the code with llvmlite takes a tenth of that
time and memory. The file is stored beside the module's compiled Python, or in the user's cache folder if that is not
writable. Its name depends on the source, the llvmlite version and the processor.
Tests: tests/kafka_zk/base/test_machine_code.py.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL, c_void_p, cast
from importlib import import_module
from importlib.util import cache_from_source, find_spec, source_hash
from pathlib import Path
from typing import Any

_HASH_SIZE = 8
_NEVER_CALLED = (
    "numba_do_raise", "numba_gil_ensure", "numba_gil_release", "numba_runtime_build_excinfo_struct", "numba_unpickle",
)  # fmt: skip
"""Functions that numba's code calls to raise exceptions. The functions here raise none."""


class MachineCode:
    """Functions in memory. ``addresses`` maps names to addresses, which are valid while this object exists."""

    def __init__(self, llvm: Any, code: bytes, names: Sequence[str]) -> None:
        """Raises RuntimeError if the code refers to an unknown symbol."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        builder = llvm.JITLibraryBuilder()
        abort = cast(CDLL(None).abort, c_void_p).value
        for name in _NEVER_CALLED:
            builder.import_symbol(name, abort)
        builder.add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        self._linker = llvm.create_lljit_compiler()
        self._library = builder.add_current_process().link(self._linker, "kafka_zk")
        self.addresses: Mapping[str, int] = {name: self._library[name] for name in names}


def machine_code(module: str, names: Sequence[str], *, compiles: bool) -> MachineCode | None:
    """Load the functions that ``module`` exports as numba C callbacks through ``c_functions()``, by their names there.

    Args:
        module: imported only to compile the functions, which takes seconds.
        compiles: compile the functions if no file exists.
    Returns: None if llvmlite is missing, or if the code cannot be compiled, stored or linked.
    """
    try:
        llvm = import_module("llvmlite.binding")
    except ImportError:
        return None
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    places = _places(spec.origin, _key(llvm, Path(spec.origin).read_bytes()))
    code = next(filter(None, map(_read, places)), None)
    if code is None and compiles and any(map(_is_writable, places)):
        code = _compiled(llvm, module)
        if code is not None:
            _keep(places, code)
    try:
        return None if code is None else MachineCode(llvm, code, names)
    except RuntimeError:  # an untested numba: keep the file, so that the next attempt fails fast
        return None


def _key(llvm: Any, source: bytes) -> str:
    version = import_module("llvmlite").__version__
    machine = f"{version} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features(llvm)}"
    return source_hash(source + machine.encode()).hex()


def _features(llvm: Any) -> str:
    return str(llvm.get_host_cpu_features().flatten())


def _places(source_path: str, key: str) -> list[Path]:
    name = f"{Path(source_path).stem}.{key}.o"
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(cache_from_source(source_path)).parent / name, Path(user_cache) / "kafka-zk" / name]


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    code = data[_HASH_SIZE:]
    return code if code and source_hash(code) == data[:_HASH_SIZE] else None


def _is_writable(path: Path) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(path.parent, os.W_OK)


def _keep(places: Sequence[Path], code: bytes) -> None:
    """Write the code to the first writable path. Two processes may do so concurrently."""
    for path in places:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_bytes(source_hash(code) + code)
            temporary.replace(path)
        except OSError:
            continue
        return


def _compiled(llvm: Any, module: str) -> bytes | None:
    try:
        c_functions: Callable[[], Mapping[str, Any]] = import_module(module).c_functions
    except Exception:  # numba has many error types, and every caller can do without the code
        return None
    linked = None
    for name, function in c_functions().items():
        compiled = llvm.parse_assembly(function.inspect_llvm().replace(function.native_name, name))
        if linked is None:
            linked = compiled
        else:
            linked.link_in(compiled)
    assert linked is not None
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_features(llvm), opt=3, reloc="pic", codemodel="small"
    )
    return bytes(machine.emit_object(linked))
