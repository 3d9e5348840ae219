"""Checks the keys for the authorizer: its class, and the keys of Kafka's AclAuthorizer.

Source: AclAuthorizer.configure@3.9.
"""

import re
from collections.abc import Mapping

ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_CLASS_KEY = "authorizer.class.name"
_OWN_ZOOKEEPER = "authorizer.zookeeper.url"
_PYTHON_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class BadAuthorizer(Exception):
    """An authorizer key is invalid; the message is one sentence that names the key."""


def check_authorizer(properties: Mapping[str, str]) -> None:
    """Check the authorizer's keys. Raises BadAuthorizer for the first invalid one."""
    wanted = properties.get(_CLASS_KEY, "").strip()
    if wanted and wanted != ACL_AUTHORIZER and not is_python_class(wanted):
        raise BadAuthorizer(
            f"{_CLASS_KEY}={wanted}: this broker cannot run Java classes; set {ACL_AUTHORIZER}, or a Python "
            "class as module:Class"
        )
    if not wanted:
        _refuse_without_authorizer("super.users", properties)
    own_zookeeper = properties.get(_OWN_ZOOKEEPER, "").strip()
    if own_zookeeper and own_zookeeper != properties.get("zookeeper.connect", "").strip():
        raise BadAuthorizer(
            f"{_OWN_ZOOKEEPER}={own_zookeeper}: must equal zookeeper.connect; this broker reads no ACLs "
            "from another ZooKeeper"
        )
    super_users(properties.get("super.users") or "")


def _refuse_without_authorizer(key: str, properties: Mapping[str, str]) -> None:
    value = properties.get(key, "").strip()
    if value:
        raise BadAuthorizer(
            f"{key}={value}: {_CLASS_KEY} is not set, so everyone may do everything; set it to {ACL_AUTHORIZER}, "
            "or remove the key if that is what you want"
        )


def is_python_class(name: str) -> bool:
    return _PYTHON_CLASS.fullmatch(name) is not None


def super_users(text: str) -> frozenset[str]:
    """Parse the principals in ``super.users``. Raises BadAuthorizer."""
    users = [user.strip() for user in text.split(";") if user.strip()]
    for user in users:
        kind, separator, name = user.partition(":")
        if not (kind and separator and name):
            raise BadAuthorizer(f"super.users={text}: must be a list like User:admin;User:broker, not {user}")
    return frozenset(users)
