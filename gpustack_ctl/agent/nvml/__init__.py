"""NVIDIA's management library: what it says of the cards, and what it is told to do with them.

Only this package calls NVML. It is imported when the agent is told to use it, because its bindings are memory that a
node with other cards need not spend.
"""
