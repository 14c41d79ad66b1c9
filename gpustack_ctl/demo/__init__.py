"""The demonstration: six Pods, four cards, five gates, on real programs.

It tells one story and proves it. `pods` says who is in it and how each should end; `stage` is the cluster with both
roles running; `timeline` watches the cluster's own objects and notes when each gate answered; `story` sends the Pods,
reads everything back and judges; `screen` shows it live; `report` is the JSON document.
"""
