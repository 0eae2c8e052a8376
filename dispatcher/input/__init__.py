"""What strangers write, turned into typed values, with all that is wrong told at once.

No rule of what is allowed in a container or an option enters: those stand with its model.
"""
