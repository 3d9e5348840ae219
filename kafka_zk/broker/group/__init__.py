"""The group coordinator: consumer groups that the broker itself keeps, in the topic ``__consumer_offsets``.

A pure core (``group``, ``members``, ``offsets``, ``records``) takes requests and times and returns effects; a thin
driver (``coordinator``) writes what is to be stored, answers clients and keeps the time.
"""
