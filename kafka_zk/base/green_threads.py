"""Whether gevent or eventlet have replaced this process's threads by greenlets.

A greenlet that blocks in C keeps all others from running: a thread of ours that waits for a process or for its reactor
would stop the whole program.
"""

import sys


def green_threads_problem() -> str | None:
    """One sentence that says what to do; None where threads are the system's."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        library = "gevent"
    elif (eventlet := sys.modules.get("eventlet.patcher")) is not None and eventlet.is_monkey_patched("thread"):
        library = "eventlet"
    else:
        return None
    return (
        f"{library} has replaced this process's threads, which kafka-zk needs: run the cluster and kafka-zk's clients "
        f"in another process (`kafka-zk up`), or leave threads out of {library}'s monkey patching"
    )
