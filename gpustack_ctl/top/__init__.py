"""The fleet at a glance: pools with their four views, every card and who holds it, and who waits for what.

One picture is drawn from what the informers hold, whether they are watched or were filled once; the table and the JSON
document are two ways to show it.
"""
