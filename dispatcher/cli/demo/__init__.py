"""`longshore demo`: a story with a server of its own, told while it happens."""
