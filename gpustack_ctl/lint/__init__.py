"""Gate 1 without a cluster: what the webhook would do to a manifest, before anybody sends it."""
