"""Timings of test servers. Sessions last 2 to 20 ticks, so up to 4 s here."""

TICK_TIME_MS = 200
SESSION_TIMEOUT_MS = 4_000
CONNECTION_TIMEOUT_MS = 30_000
"""For the first connection. The default is the session's timeout, in which a server that has just started cannot always
answer its first TLS handshake on a busy machine."""
SESSION_KEYS = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": str(CONNECTION_TIMEOUT_MS),
}
"""The brokers' keys with these timings."""
