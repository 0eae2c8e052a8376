"""Which instances are created for those who found no room, within limits and budget; pure.

`batch` asks; `solve` finds the cheapest solution of instance types.
"""
