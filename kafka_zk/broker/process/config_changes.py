"""Follows configuration changes, beginning before the first configuration is read.

A starting broker first reads configurations, users and quotas, so changes wait for ``follow``. A watch that began only
at ``follow`` would miss a change that another broker, whose clock is ahead, has purged.
"""

from twisted.internet.defer import ensureDeferred

from kafka_zk.broker.process.live_config import LiveConfig
from kafka_zk.registry.config import ConfigRegistry


class ConfigChanges:
    """Call ``follow`` once, when the broker has started."""

    def __init__(self, configs: ConfigRegistry) -> None:
        self._live: LiveConfig | None = None
        self._waiting: dict[tuple[str, str], None] = {}  # (entity type, name), in order
        self._missed = False
        self._watcher = configs.watch_changes(self._changed, self._changes_missed)

    def follow(self, live: LiveConfig) -> None:
        """Apply all changes so far, and each later one."""
        self._live = live
        waiting, self._waiting = self._waiting, {}
        if self._missed:
            self._changes_missed()
        for entity in waiting:
            self._changed(*entity)

    def close(self) -> None:
        self._watcher.close()

    def _changed(self, entity_type: str, entity_name: str) -> None:
        if self._live is None:
            self._waiting[entity_type, entity_name] = None
        else:
            ensureDeferred(self._live.changed(entity_type, entity_name))

    def _changes_missed(self) -> None:
        if self._live is None:
            self._missed = True
        else:
            ensureDeferred(self._live.changes_missed())
