"""kafka-python's codec, imported without the warnings that its loader of field tables causes on Python 3.11 and 3.12.

With warnings as errors, as strict test suites have them, the import would fail.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_loader_warnings() -> Iterator[None]:
    """For statements that make kafka-python load field tables: it calls ``importlib.resources.read_text``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"(read_text|open_text) is deprecated", DeprecationWarning)
        yield


with without_loader_warnings():
    from kafka.protocol.api_message import ApiMessage as ApiMessage
    from kafka.protocol.schemas.fields.codecs import EncodeBuffer as EncodeBuffer
