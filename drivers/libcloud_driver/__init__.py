"""The driver `libcloud`: clouds that Apache Libcloud knows, through its compute API.

What may enter: its parameters, the names and tags of nodes, user data, what differs from provider
to provider, the table of faults, and the instance set. Only `clients`, `faults`, `providers` and
`instance_set` import Libcloud, which takes its time; `driver` imports them once it must make one.
"""
