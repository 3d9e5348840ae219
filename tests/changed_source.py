"""Compiles the changed source of a module, for tests that remove a safeguard."""

from types import ModuleType


def compiled(module: ModuleType, source: str) -> ModuleType:
    """A module of the same name, made from ``source`` and not imported."""
    changed = ModuleType(module.__name__)
    exec(compile(source, f"<{module.__name__} changed>", "exec"), changed.__dict__)
    return changed
