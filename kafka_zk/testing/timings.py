"""How quick the servers of tests are. Sessions last between 2 and 20 ticks, so these up to 4 s."""

TICK_TIME_MS = 200
SESSION_TIMEOUT_MS = 4_000
