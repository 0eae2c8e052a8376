"""What was spent, when, by whom and for what: the ledger's rules; pure.

What may enter: values, and functions of values, from what was seen of instances and attempts to
lines that add up to what the cloud bills. What is kept is the store's, what is asked the service's.
"""
