"""Why something waits, when it may start, what happened before: answers for people; pure.

It reads what others decided, what happened before in `dispatcher.ledger.history`, and changes
nothing. A new reason is made where it is decided.
"""
