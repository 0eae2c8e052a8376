"""The pool: creates instances, probes them over SSH, keeps them idle for a while, shuts them down.

What may enter: what is known of a worker and how it may change (`model`, `transitions`, `core`:
pure), how the far end is reached (`ssh`, `hostkey`, `deploy`, `session`), the program that runs
there (`runner/`), and the performer that carries out the core's commands. Imports `drivers`, never
`dispatcher`.
"""
