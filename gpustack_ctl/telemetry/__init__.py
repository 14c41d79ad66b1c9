"""What a running process says of itself: logs, health and metrics."""
