"""The abilities of this operating system.

Only these modules use functions that only Linux has. Each has a fallback for other systems, such as macOS, that is
correct but slower or weaker; its docstring describes it. Tests: tests/kafka_zk/base/operating_system.
"""
