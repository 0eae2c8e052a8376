"""The schema's history, run by Alembic when a store is opened; it is part of the wheel.

What may enter: `env`, which Alembic loads, and one module a revision in `versions`, never changed
after a release.
"""
