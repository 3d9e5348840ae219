"""What the process of a broker, or of a command that is a client, need not import.

Twisted's TCP imports TLS, and with it OpenSSL's bindings, wherever those are installed: 14 MB. Twisted's Deferreds
import asyncio for three names, its compatibility module a jar for cookies, kazoo ``ssl`` and ``hashlib`` for what most
clusters do not ask of it: 7 MB, most of them for OpenSSL. Each comes when it is first used. The configuration decides:
it is read before, without any of these modules; a TLS connection to ZooKeeper has loaded the real ``ssl`` by then, and
with TLS listeners nothing of TLS is replaced.
"""

import importlib
import inspect
import sys
import types
from typing import Any


def import_lean(*, tls_listeners: bool = False) -> None:
    """Call once the configuration is read, before anything imports ``twisted``, in a process of our own.

    Without ``tls_listeners`` pyOpenSSL is out of reach then.
    """
    if not tls_listeners:
        sys.modules.setdefault("OpenSSL", None)  # type: ignore[arg-type]  # Python's own mark for "not to be found"
    for name in ("http.cookiejar",) if tls_listeners else ("ssl", "hashlib", "hmac", "http.cookiejar"):
        if name not in sys.modules:
            sys.modules[name] = stand_in = _OnUse(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(importlib.import_module(parent), child, stand_in)
    if "asyncio" not in sys.modules:
        _import_deferreds_without_asyncio()


class _OnUse(types.ModuleType):
    """Stands for a module until somebody asks for something of it; then the real one takes its place."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)


def _import_deferreds_without_asyncio() -> None:
    """Two of the three names are for annotations only, the third is inspect's."""
    stand_in: Any = types.ModuleType("asyncio")
    stand_in.AbstractEventLoop = stand_in.Future = object
    stand_in.iscoroutine = inspect.iscoroutine
    sys.modules["asyncio"] = stand_in
    try:
        importlib.import_module("twisted.internet.defer")
    finally:
        del sys.modules["asyncio"]
