"""The configuration: read, checked, with everything that is wrong told at once, and as data.

An option stands in `model`, with its bounds; what two options must have in common in `check`. What
the rest of the dispatcher does with an option does not enter.
"""
