"""Detectors: the ways to find out which accelerators this node has."""
