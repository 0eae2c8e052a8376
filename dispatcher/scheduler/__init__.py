"""Decides which container runs where, and which instances are created for the rest; pure.

`batch/` is the pass over the queue, `system/` and `elastic/` the jobs that never queue, `scale_up/`
what is created for whoever found no room, and `placement/` what all of them place with.
"""
