"""Detects whether gevent or eventlet has replaced this process's threads with greenlets.

A greenlet that blocks in C stops all others, so waiting for a process or a reactor thread would stop the whole program.
"""

import sys


def green_threads_problem() -> str | None:
    """One sentence for the user; None if threads are system threads."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        library = "gevent"
    elif (eventlet := sys.modules.get("eventlet.patcher")) is not None and eventlet.is_monkey_patched("thread"):
        library = "eventlet"
    else:
        return None
    return (
        f"{library} has replaced this process's threads, which kafka-zk needs: run the cluster and kafka-zk's clients "
        f"in another process (`kafka-zk up`), or exclude threads from {library}'s monkey patching"
    )
