"""The far end: SSH, the session with a worker's runner, and the performer of the core's commands.

What may enter: threads, sockets and clocks. Nothing here decides; what it hears becomes events.
"""
