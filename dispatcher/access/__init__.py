"""Who comes in: credentials, what vouches for a caller, and how often each may ask.

May enter: what tells who a request is from. What a caller may do then is the services' to say.
"""
