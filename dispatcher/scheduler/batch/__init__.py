"""The scheduling pass, and the plan of the containers that queue; pure.

`scheduling_pass` runs all kinds of workloads in turn and applies the batch plan.
"""
