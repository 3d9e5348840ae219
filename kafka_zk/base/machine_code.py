"""Machine code that numba has made of functions once, kept in a file and loaded without numba.

Importing numba takes as much CPU time as cleaning 100 MB of a log does; llvmlite, which links the code, takes a tenth
of that, and of the memory. The file lies with the compiled Python of the module that the functions are written in, or
in the user's cache folder where that cannot be written. It counts for the source, the llvmlite and the processor that
it was made with. Tests: tests/kafka_zk/base/test_machine_code.py.
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
"""What numba's code calls where a function raises, which these functions do not."""


class MachineCode:
    """Functions in memory. ``addresses`` by name; they count as long as this object is there."""

    def __init__(self, llvm: Any, code: bytes, names: Sequence[str]) -> None:
        """Raises: RuntimeError if the code needs what is not there."""
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
    """The functions of a module that hands numba's C callbacks out by ``c_functions()``, under their names there.

    Args:
        module: is imported only to compile the functions, which takes seconds.
        compiles: whether they are compiled if there is no file.
    Returns: None without llvmlite, or numba if it is needed; if the code cannot be compiled, kept, or linked.
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
    except RuntimeError:  # a numba that nobody has tried it with: the file is kept, so that this is known soon
        return None


def _key(llvm: Any, source: bytes) -> str:
    """What the code depends on."""
    version = import_module("llvmlite").__version__
    machine = f"{version} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features(llvm)}"
    return source_hash(source + machine.encode()).hex()


def _features(llvm: Any) -> str:
    return str(llvm.get_host_cpu_features().flatten())


def _places(source_path: str, key: str) -> list[Path]:
    """Where the file may be, the best place first."""
    name = f"{Path(source_path).stem}.{key}.o"
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [Path(cache_from_source(source_path)).parent / name, Path(user_cache) / "kafka-zk" / name]


def _read(path: Path) -> bytes | None:
    """The code in a file; None if there is none, or a damaged one."""
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
    """Put the code into the first place that takes it; two processes may do so at once."""
    for path in places:
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            temporary.write_bytes(source_hash(code) + code)
            temporary.replace(path)
        except OSError:
            continue
        return


def _compiled(llvm: Any, module: str) -> bytes | None:
    """The code of the module's functions; None without numba, or with one that does not compile them."""
    try:
        c_functions: Callable[[], Mapping[str, Any]] = import_module(module).c_functions
    except Exception:  # numba has many errors of its own; whoever asks can do without the code
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
