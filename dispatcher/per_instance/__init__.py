"""System and sysbatch jobs beside the engine: one container on each instance; pure.

`placer` is the way in; the rules themselves are in `dispatcher.planner.per_instance`.
"""
