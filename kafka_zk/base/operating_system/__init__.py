"""What this operating system can do.

Calls that only Linux has are made in these modules only. Each has a fallback, correct but slower or weaker, for systems
without it, such as macOS; its docstring says which. Tests: tests/kafka_zk/base/operating_system.
"""
