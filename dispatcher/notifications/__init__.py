"""Who is told elsewhere of what happens here: what is sent, signed how, when again, and to whom.

May enter: what brings a notification to somebody. What there is to tell is others' to decide.
"""
