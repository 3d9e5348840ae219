"""The native module for tests. It may be missing only if it cannot be built here or if KAFKA_ZK_NATIVE=0 disables
it.
"""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from kafka_zk.native.loading import NEVER, REQUIRE, VARIABLE, WHERE_BUILT, Native, chosen


def native_or_skip() -> Native:
    """Fails if the module is missing or stale although it could be built."""
    choice = os.environ.get(VARIABLE) or WHERE_BUILT
    found = chosen(REQUIRE if choice != NEVER and _can_build() else choice)
    if found.native is None:
        pytest.skip(str(found))
    return found.native


def _can_build() -> bool:
    has_headers = Path(sysconfig.get_path("include"), "Python.h").exists()
    return shutil.which("cc") is not None and has_headers and not sysconfig.get_config_var("Py_GIL_DISABLED")
