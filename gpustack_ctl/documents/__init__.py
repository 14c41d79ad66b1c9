"""Documents that people write: YAML read with line numbers, and the parts that several of them share.

The simulated detector's inventory and a simulator's scenario describe cards in the same words, so they are read by the
same code, and their faults read alike.
"""
