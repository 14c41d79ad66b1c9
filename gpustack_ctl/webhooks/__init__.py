"""Gate 1: what the API server asks us before it stores a Pod or a Job."""
