"""The ledger: containers and attempts that have not ended, and each of their changes; pure.

Whatever changes a container goes through `ledger`, which notes the change for the store. `history`
remembers what was decided about them lately, in memory only.
"""
