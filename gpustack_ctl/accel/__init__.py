"""The heart: what a card, a claim and a placement are. Values in, values out.

Nothing here reads a file, a clock or a cluster, so every gate, the simulator and the tests can ask the same functions
and get the same answers. A rule that two callers need stands here once.
"""
