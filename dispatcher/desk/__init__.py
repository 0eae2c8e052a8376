"""The API's desk: what users ask is taken in, answered and published, between store and engine.

It runs on the event loop and may wait; it decides nothing of the queue, and no HTTP enters: that is
in `dispatcher.api`. How jobs are made, and what one would come to, is pure: `job_making` and
`job_planning`.
"""
