"""The client library, which users import as `longshore.client`: sync and async, typed.

What may enter: what is sent to a server and what is read of its answers. `dialogue`, `exchange`,
`calls`, `event_stream`, `log_cursor` and `waiting` decide and do nothing; `blocking_transport` and
`async_transport` send, `tls` tells what a port speaks, and `blocking` and `asynchronous` are what
users hold. Of the server nothing enters but the JSON of its API, and where its data are.
"""
