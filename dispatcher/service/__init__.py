"""What the API asks for: admission, containers, jobs, instances, events, dry runs.

What may enter: what checks a request against what is there, commits it, and tells the engine.
"""
