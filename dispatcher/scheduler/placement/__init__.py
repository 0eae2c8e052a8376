"""What all kinds of workloads place with: the fleet, a snapshot of it, limits, preemption; pure.

`fleet` is the room on instances, `snapshot` what a pass sees, `workload` the port for jobs that
never queue. Nothing here decides whose turn it is.
"""
