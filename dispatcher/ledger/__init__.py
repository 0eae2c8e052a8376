"""The ledger: containers and attempts that have not ended, and each of their changes; pure.

Whatever changes a container goes through `ledger`, which notes the change for the store.
"""
