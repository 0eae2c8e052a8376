"""The log store: what containers wrote, in bounded files on disk."""
