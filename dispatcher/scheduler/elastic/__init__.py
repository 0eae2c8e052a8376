"""Elastic jobs: members that are placed together, and grow and shrink; pure.

`schedule` decides for all of them in one pass; `controller` carries it out.
"""
