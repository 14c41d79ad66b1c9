"""The manager's controllers: from Nodes and ledgers to queues, and gate 3.

Each file is one controller: the fields it owns, what wakes it, and one reconcile that reads facts from the informers,
asks a pure function of `accel` what should be, and writes the difference.
"""
