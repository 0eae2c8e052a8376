"""The engine: one deterministic state machine over pool, queue and scheduler, and its runtime.

`engine` is pure: events in, commands and changes out. `runtime` carries out what it asks for.
"""
