"""Whether a request means something: checks beyond its shape, all problems at once.

From structs of `schemas` to values of the domain.
"""
