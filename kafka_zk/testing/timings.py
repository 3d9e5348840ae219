"""Timings of test servers. Sessions last 2 to 20 ticks, so up to 4 s here."""

TICK_TIME_MS = 200
SESSION_TIMEOUT_MS = 4_000
