"""The transaction coordinator: the state of each transactional id, stored in ``__transaction_state`` (KIP-98).

A pure core (``transaction``, ``states``, ``records``) receives requests and timestamps and returns effects. A thin
driver (``coordinator``, ``state_manager``, ``marker_channels``) writes records, sends transaction markers to partition
leaders, and responds to clients.
"""
