"""Benchmarks. Each one, and what it starts, keeps compiled modules, so that no broker compiles them at each start."""

from tests.bytecode import keep_bytecode

keep_bytecode()
