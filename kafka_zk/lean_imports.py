"""What a broker's process need not import.

``import kafka.protocol`` runs the ``__init__`` of kafka-python, which imports all of its clients: 6 MB and 60 ms of a
broker's start for nothing. Twisted's TCP imports TLS, and with it OpenSSL's bindings, wherever those are installed:
another 14 MB, for listeners that no broker has yet.
"""

import importlib.util
import sys
import types


def import_lean() -> None:
    """Call before anything imports ``kafka`` or ``twisted``, and only in a process of our own: kafka-python's clients
    and pyOpenSSL are out of reach then."""
    if "kafka" not in sys.modules:
        sys.modules["kafka"] = _without_its_init("kafka")
    sys.modules.setdefault("OpenSSL", None)  # type: ignore[arg-type]  # Python's own mark for "not to be found"


def _without_its_init(name: str) -> types.ModuleType:
    """A package whose modules can be imported though its ``__init__`` never ran."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations is not None, f"{name} is a dependency"
    bare = types.ModuleType(name)
    bare.__path__ = list(spec.submodule_search_locations)
    bare.__spec__ = spec
    return bare
