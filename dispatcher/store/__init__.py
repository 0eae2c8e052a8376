"""The store: what must survive a crash, in SQL, and the one thread that writes it.

What may enter: tables and their migrations, the translation between rows and the values of
`dispatcher.domain.containers`, and the reading and writing of both. `sqlite` is the only module
that knows a database by name; everything else is portable SQL. No decision about scheduling.
"""
