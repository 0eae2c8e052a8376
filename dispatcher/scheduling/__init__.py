"""A planning pass: what the planner sees of the pool, and the plan carried out; pure.

`placing` is the pass, `placers` the seam for jobs that never queue. What decides without a pool is
in `dispatcher.planner`.
"""
