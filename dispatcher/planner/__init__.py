"""The planner: what waits, what room there is and the limits in; a plan out; pure.

What may enter: what decides where containers go and what is created for them (`fit`: which types
would do; `room` and `fleet`: places on instances; `limits`: what a pass may do, and what it
decided; `batch`: the pass; `buying` and `mix`: what is created; `reasons`: why the rest waits).
"""
