"""Process limits; each test uses its own process, because most limits cannot be raised again."""

import subprocess
import sys

import pytest

BEGIN = "import resource, os; from kafka_zk.base.operating_system.limits import *; "
FILE = "import tempfile; file = tempfile.TemporaryFile(buffering=0); "
PRINT_FILES = "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard)"


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", BEGIN + code], capture_output=True, text=True, check=False)
    return done.stdout + "".join(done.stderr.splitlines()[-1:])


@pytest.mark.slow
def test_a_process_may_open_as_many_files_as_the_system_allows() -> None:
    lower = "resource.setrlimit(resource.RLIMIT_NOFILE, (99, hard)); "
    code = f"hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]; {lower} raise_descriptor_limit(); {PRINT_FILES}"
    assert _run(code) == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ValueError", "OSError"])
def test_macos_has_a_lower_limit_than_it_says(error: str) -> None:
    """macOS reports an infinite hard limit, but setting the limit to that value fails."""
    code = f"""
calls = []
def set_limit(kind, limits):
    calls.append(limits)
    if limits[0] == resource.RLIM_INFINITY:
        raise {error}
resource.getrlimit = lambda kind: (256, resource.RLIM_INFINITY)
resource.setrlimit = set_limit
raise_descriptor_limit()
print(calls)"""
    assert _run(f"pass\n{code}") == "[(-1, -1), (10240, -1)]\n"


@pytest.mark.slow
def test_memory_is_limited_unless_the_system_refuses() -> None:
    assert _run("limit_memory(1 << 28); bytes(1 << 29)") == "MemoryError"
    refusing = "def refuse(*_): raise ValueError('current limit exceeds maximum limit')\nresource.setrlimit = refuse\n"
    assert _run(f"pass\n{refusing}limit_memory(1 << 28); print(len(bytes(1 << 29)))") == f"{1 << 29}\n"


@pytest.mark.slow
def test_files_cannot_grow_beyond_a_limit_until_it_is_lifted() -> None:
    begin = f"{FILE} before = file_size_limit(); limit_file_size(10); print(file_size_limit(), file.write(bytes(20))); "
    assert _run(f"{begin} file.write(b'x')") == "10 10\nOSError: [Errno 27] File too large"
    assert _run(f"{begin} limit_file_size(before); print(file.write(b'x'))") == "10 10\n1\n"


@pytest.mark.slow
def test_the_files_of_another_process_are_limited_on_linux_only() -> None:
    begin = f"{FILE} limit_file_size_of(os.getpid(), 10); print(file.write(bytes(20))); "
    assert _run(f"{begin} limit_file_size_of(os.getpid(), None); print(file.write(b'x'))") == "10\n1\n"
    refused = _run("del resource.prlimit; limit_file_size_of(os.getpid(), 10)")
    assert refused == "OSError: [Errno 38] only Linux limits the files of another process"
