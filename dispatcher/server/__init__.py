"""Puts the parts together and serves them; the only folder that imports all others."""
