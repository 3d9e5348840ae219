"""Timings of test servers. Sessions last 2 to 20 ticks, so up to 4 s here."""

TICK_TIME_MS = 200
SESSION_TIMEOUT_MS = 4_000
CONNECTION_TIMEOUT_MS = 30_000
"""Time limit of the first connection. The default is the session's timeout, which may be too short: on a busy machine,
a server that has just started may need longer for its first TLS handshake.
"""
SESSION_KEYS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": str(CONNECTION_TIMEOUT_MS),
}
"""The brokers' keys with these timings."""
