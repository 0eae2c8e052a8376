"""Longshore: batch containers on cloud instances that it creates, watches and shuts down.

The name under which the three folders of this repository are imported: `longshore.dispatcher`,
`longshore.pool` and `longshore.drivers`. Here they are links to the folders; in a wheel they are
folders. Their bare names are nobody's: PyPI has a `drivers` of its own.
"""
