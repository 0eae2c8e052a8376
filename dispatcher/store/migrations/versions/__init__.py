"""The revisions of the schema, one module each, named by their number.

What may enter: a module with `revision`, `down_revision` and `upgrade`. Who goes back
needs the backup.
"""
