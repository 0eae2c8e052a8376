"""Values that everything else speaks of: containers, jobs, messages, queries, views; pure.

What may enter: frozen data and what follows from it alone. Imports nothing of the dispatcher, and
of the pool and the drivers only their values.
"""
