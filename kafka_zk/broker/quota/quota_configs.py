"""Reads quotas from ZooKeeper: all of them at the start and in each new session, later those that have changed.

Address quotas apply to listeners, all others to requests. An invalid quota is logged as an ERROR and has no effect; a
quota that an ACL hides keeps its last value. Source: ConfigHandler.scala@3.9.
"""

from collections.abc import Callable, Mapping

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.base.threads import RunInThread
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.quota.quota_table import IP_KEY
from kafka_zk.network.addresses import address_of
from kafka_zk.registry.client.pipeline import READS_AT_ONCE
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, desanitize

_log = Logger()

ENTITY_TYPES = ("users", "clients", "ips")

SetIpRate = Callable[[str | None, int | None], None]
"""Called with an address (None: the default) and connections per second (None: no limit)."""


class QuotaConfigs:
    """``run_in_thread`` resolves host names. While a name does not resolve, its last address keeps the quota."""

    def __init__(self, enforcement: Enforcement, configs: ConfigRegistry, run_in_thread: RunInThread) -> None:
        self._enforcement = enforcement
        self._configs = configs
        self._run_in_thread = run_in_thread
        self._ip_rates: dict[str, tuple[str | None, int]] = {}  # encoded name -> (address, connections per second)
        self._set_ip_rate: SetIpRate = lambda address, rate: None
        # An earlier read, which may take long to resolve a name, must not replace a later one.
        self._reads = {entity_type: DeferredLock() for entity_type in ENTITY_TYPES}

    def limit_addresses_by(self, set_ip_rate: SetIpRate) -> None:
        """Pass the known address quotas to ``set_ip_rate``, and later every change."""
        self._set_ip_rate = set_ip_rate
        for address, rate in self._ip_rates.values():
            set_ip_rate(address, rate)

    async def load(self) -> None:
        """Read all quotas, and remove those that no longer exist. Raises SessionLost."""
        known = self._enforcement.quotas.table.names
        for entity_type in ENTITY_TYPES:
            # Known names come first. If ZooKeeper encodes a name differently, the known path is empty, and the path
            # that is read later wins.
            names = dict.fromkeys(name for kind, name in known if kind == entity_type)
            names |= dict.fromkeys(await self._configs.entity_names(entity_type))
            if entity_type == "users":
                names |= dict.fromkeys(await self._configs.names_of_clients_of_users())
            if entity_type == "ips":
                names |= dict.fromkeys(self._ip_rates)
            await self.reload(entity_type, list(names))

    async def reload(self, entity_type: str, names: list[str]) -> None:
        """Read the entities with these encoded names again. Raises SessionLost."""
        async with self._reads[entity_type]:
            for start in range(0, len(names), READS_AT_ONCE):  # lets other work run
                some = names[start : start + READS_AT_ONCE]
                for name, properties in (await self._configs.synced_entities(entity_type, some)).items():
                    await self._set(entity_type, name, properties)
                self._enforcement.changed()

    async def _set(self, entity_type: str, name: str, properties: Mapping[str, str]) -> None:
        if entity_type == "ips":
            await self._set_ip(name, properties)
            return
        for fault in self._enforcement.quotas.set(entity_type, name, properties):
            _log.error("ignored an invalid quota: {fault}", fault=fault)

    async def _set_ip(self, name: str, properties: Mapping[str, str]) -> None:
        text = properties.get(IP_KEY)
        rate = None if text is None else decimal_integer(text, NATURAL_INT32)
        known = self._ip_rates.get(name)
        address = None
        if rate is not None and name != DEFAULT_ENTITY:
            address = await self._run_in_thread(lambda: address_of(desanitize(name))) or (known and known[0])
        if known is not None and (rate is None or address != known[0]):
            del self._ip_rates[name]
            self._set_ip_rate(known[0], None)
        if rate is not None and (address is not None or name == DEFAULT_ENTITY):
            self._ip_rates[name] = address, rate
            self._set_ip_rate(address, rate)
        elif text is not None:
            _log.error(
                "ignored an invalid quota: /config/ips/{name}: {key}={text}",
                name=name,
                key=IP_KEY,
                text=text,
            )
