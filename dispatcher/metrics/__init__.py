"""The exposition for Prometheus: read off the engine's memory at each scrape.

A metric stands in the module of what it is about; `exposition` puts them together. No label whose
values are unbounded enters.
"""
