"""The demonstration: six Pods, four cards, five gates, on real programs.

It tells one story and proves it. `pods` says who is in it; `sites` is where it is played and `stage` the cluster with
both roles running; `timeline` watches the cluster's own objects and notes when each gate answered; `story` sends the
Pods and reads everything back; `verdict` judges; `screen` shows it live; `report` is the JSON document. `play` is all
of it from curtain to curtain.
"""
