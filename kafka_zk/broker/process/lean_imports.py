"""Avoids imports that a broker or a client command does not need.

Twisted's TCP imports TLS, and OpenSSL's bindings if installed: 14 MB. For rare features, Deferreds import asyncio
(three names), Twisted's compatibility module imports a cookie jar, and kazoo imports ``ssl`` and ``hashlib``: 7 MB,
mostly OpenSSL. This module delays these imports until their first use. With TLS listeners, TLS modules are not
replaced; a TLS connection to ZooKeeper has loaded the real ``ssl``.
"""

import importlib
import inspect
import sys
import types
from typing import Any


def import_lean(*, tls_listeners: bool = False) -> None:
    """Call this once, after reading the configuration and before any import of ``twisted``.

    Unless ``tls_listeners``, pyOpenSSL can no longer be imported.
    """
    if not tls_listeners:
        sys.modules.setdefault("OpenSSL", None)  # type: ignore[arg-type]  # None makes an import fail
    for name in ("http.cookiejar",) if tls_listeners else ("ssl", "hashlib", "hmac", "http.cookiejar"):
        if name not in sys.modules:
            sys.modules[name] = stand_in = _OnUse(name)
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(importlib.import_module(parent), child, stand_in)
    if "asyncio" not in sys.modules:
        _import_deferreds_without_asyncio()


class _OnUse(types.ModuleType):
    """A placeholder: the first access to an attribute loads the module."""

    def __getattr__(self, attribute: str) -> Any:
        name = self.__name__
        if sys.modules.get(name) is self:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)


def _import_deferreds_without_asyncio() -> None:
    """Two of the three names are only annotations; the third is a function that ``inspect`` also has."""
    stand_in: Any = types.ModuleType("asyncio")
    stand_in.AbstractEventLoop = stand_in.Future = object
    stand_in.iscoroutine = inspect.iscoroutine
    sys.modules["asyncio"] = stand_in
    try:
        importlib.import_module("twisted.internet.defer")
    finally:
        del sys.modules["asyncio"]
