"""Cloud drivers: each makes an instance set for one cloud, and nothing else.

What may enter: the interface a driver implements, the error taxonomy, the registry, the drivers
themselves, and what only drivers share (the in-process SSH server of the local ones). Drivers keep
no clock, no retries and no state of their own; they raise `drivers.errors` and the pool decides.
Imports nothing of `pool` or `dispatcher`.
"""
