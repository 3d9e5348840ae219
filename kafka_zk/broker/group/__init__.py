"""The group coordinator: consumer groups whose state is in the topic ``__consumer_offsets``.

A pure core (``group``, ``members``, ``offsets``, ``records``) receives requests and timestamps and returns effects. A
thin driver (``coordinator``) writes records, responds to clients and runs timers.
"""
