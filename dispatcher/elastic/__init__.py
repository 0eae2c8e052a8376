"""Elastic jobs beside the engine: their placer, their market, the room that they keep; pure.

`placer` is the way in; the rules themselves are in `dispatcher.planner.elastic`. No effects enter.
"""
