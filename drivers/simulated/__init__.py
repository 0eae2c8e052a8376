"""The driver `simulated`, for trying things out and for tests: a cloud that is made up.

What may enter: the cloud (an object with an injected clock, which keeps all the state) and the
driver that speaks to it.
"""
