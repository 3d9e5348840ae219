"""The transaction coordinator: the state of each transactional id, kept in the topic ``__transaction_state`` (KIP-98).

A pure core (``transaction``, ``states``, ``records``) takes requests and times and returns effects; a thin driver
(``coordinator``, ``state_manager``, ``marker_channels``) writes what is to be stored, sends the markers that end a
transaction to the leaders of its partitions, and answers clients.
"""
