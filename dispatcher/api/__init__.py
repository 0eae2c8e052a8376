"""The HTTP API: routes, validation of requests, problem details, streams.

What may enter: what turns HTTP into calls of `backend.Backend` and its answers into JSON. No
decision about scheduling, and no SQL.
"""
