"""gpustack-ctl: five admission gates between a Pod and a GPU."""

__version__ = "0.1.0"
