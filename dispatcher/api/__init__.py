"""The HTTP API: routes, validation of requests, problem details, streams.

What may enter: what turns HTTP into calls of the services and its answers into JSON. No
decision about scheduling, and no SQL.
"""
