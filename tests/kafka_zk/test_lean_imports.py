"""A broker's process has kafka-python's tables and not its clients, and no TLS until somebody asks for it."""

import subprocess
import sys

SCRIPT = """
import sys
from kafka_zk.lean_imports import import_lean
import_lean()
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS
for api_key in BROKER_VERSIONS:
    codec.request(api_key), codec.response(api_key)
import kafka_zk.server
heavy = {"kafka.net", "kafka.admin", "OpenSSL.SSL", "cryptography", "_ssl", "_hashlib", "asyncio.base_events"}
assert not heavy & sys.modules.keys(), f"4 % of a broker's memory each: {heavy & sys.modules.keys()}"
print(len(BROKER_VERSIONS))
"""


def test_every_message_is_there_and_no_client() -> None:
    """In a process of its own, since what is imported stays."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


LATER = """
from kafka_zk.lean_imports import import_lean
import_lean()
import kafka_zk.server
import asyncio, hashlib, hmac, http.cookiejar, ssl
import asyncio.subprocess
from asyncio import Queue
assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
assert hmac.new(b"key", b"", "md5").digest_size == 16
assert ssl.create_default_context().check_hostname
assert len(http.cookiejar.CookieJar()) == 0
async def three():
    return 3
assert asyncio.run(three()) == 3 and asyncio.Future is not object and asyncio.subprocess.PIPE == -1
print("all there")
"""


def test_what_is_left_out_is_there_when_it_is_used() -> None:
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "all there\n", done.stderr
