"""The pool: creates instances, probes them over SSH, keeps them idle for a while, shuts them down.

What may enter: what is known of a worker and how it may change (`model`, `transitions`, `core`:
pure), how the far end is reached and the core's commands are carried out (`remote`), and the
program that runs there (`runner`). Imports `drivers`, never `dispatcher`.
"""
