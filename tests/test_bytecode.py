"""Benchmarks measure compiled modules, whatever the shell says."""

import os
import subprocess
import sys

import pytest

from tests.bytecode import VARIABLE

CHILD = "import sys; print(sys.dont_write_bytecode)"
BENCHMARK = f"""
import subprocess, sys
import {{}}
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
"""


@pytest.mark.parametrize("module", ["tests.bench", "tests.bench.fixtures"])
def test_what_a_benchmark_starts_keeps_compiled_modules(module: str) -> None:
    """Otherwise each broker would compile all modules at each start, and the benchmark would measure that."""
    command, environ = [sys.executable, "-c", BENCHMARK.format(module)], {**os.environ, VARIABLE: "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=True)
    assert done.stdout == "False\n"
