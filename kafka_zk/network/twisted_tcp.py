"""Loads Twisted's TCP without Twisted's own TLS.

``twisted.internet.tcp`` imports pyOpenSSL if it is installed: 12 MB, and a fifth of the time that a broker's modules
take to load. Listeners and clients here have their own TLS, on Python's ``ssl`` (``tls_transport``).
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_pyopenssl() -> Iterator[None]:
    """During the context pyOpenSSL counts as not installed, unless it or Twisted's TCP is already loaded.

    Only for processes of ours: a Twisted whose TCP was loaded here has no ``startTLS``.
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
