"""The planner: a read-only view in, a plan out; pure.

What may enter: what decides where containers go and what is created for them (`fit`: which types
would do; `room`: places on instances; `mix`: what is bought; `batch`: the pass). No state between
passes.
"""
