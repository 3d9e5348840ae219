"""Loads Twisted's TCP without Twisted's own TLS.

``twisted.internet.tcp`` imports pyOpenSSL if it is installed, which takes 12 MB and a fifth of the time to load a
broker's modules. Our listeners and clients do not need it: their TLS (``tls_transport``) is based on Python's ``ssl``.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_pyopenssl() -> Iterator[None]:
    """In this context, importing pyOpenSSL fails, unless pyOpenSSL or Twisted's TCP is already loaded.

    Use this only in our own processes: if Twisted's TCP is first loaded here, its connections have no ``startTLS``.
    Source: the Python Language Reference, "The module cache": None in ``sys.modules`` makes an import fail.
    """
    if "twisted.internet.tcp" in sys.modules or "OpenSSL" in sys.modules:
        yield
        return
    sys.modules["OpenSSL"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["OpenSSL"]
