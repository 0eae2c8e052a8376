"""Parts of drivers whose instances live on this machine: SSH server, processes, loopback."""
