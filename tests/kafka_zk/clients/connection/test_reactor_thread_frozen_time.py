"""Blocking clients in a test in which freezegun has frozen the time: their timers still run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
TIMEOUT_S = 60

# freezegun's freeze_time does this: it replaces the functions in ``time`` and in all modules that have imported them.
PROGRAM = """
import sys, time
import kafka_zk.clients.connection.reactor_thread
from twisted.internet.defer import Deferred

frozen = {getattr(time, name): value for name, value in (("monotonic", 5.0), ("time", 5.0), ("perf_counter", 5.0))}
for module in list(sys.modules.values()):
    if module.__name__.startswith(("kafka_zk", "twisted")) or module is time:
        for name, value in list(vars(module).items()):
            try:
                if value in frozen:
                    setattr(module, name, lambda value=frozen[value]: value)
            except TypeError:
                pass
assert time.monotonic() == time.monotonic() == 5.0

async def sleep():
    from twisted.internet import reactor
    done = Deferred()
    reactor.callLater(0.05, done.callback, "awake")
    return await done

print(kafka_zk.clients.connection.reactor_thread.reactor_thread().call(sleep, timeout_s=20))
"""


def test_timers_go_on_in_frozen_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.stdout == "awake\n", done.stderr
