"""What the page may do to a cluster, by the options of ``kafka-zk web``."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click


class Allowed(NamedTuple):
    """``changes``: of the cluster. ``values``: show the keys and values of records."""

    changes: bool
    values: bool


def allowed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options, as the parameter ``allowed``."""

    @click.option(
        "--allow-changes",
        is_flag=True,
        help="Also print an address with which the page may change the cluster, such as a group's offsets. Without it, "
        "the page of a cluster that kafka-zk up did not start only reads.",
    )
    @click.option(
        "--allow-values",
        is_flag=True,
        help="Also print an address with which the page may show the keys and values of records.",
    )
    @wraps(function)
    def with_allowed(*arguments: Any, allow_changes: bool, allow_values: bool, **options: Any) -> Any:
        return function(*arguments, allowed=Allowed(allow_changes, allow_values), **options)

    return with_allowed
