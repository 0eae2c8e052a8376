"""The command line `longshore`: one module a group of commands, and the demo.

What may enter: what a person types and reads. Commands speak to a server through `client` only;
anything slow to import (rich, urllib3, the server itself) is imported inside the command that
needs it, so that `longshore ps` starts at once.
"""
