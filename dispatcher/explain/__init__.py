"""Why a container waits, how long it will, and what lasts of the cloud's troubles; pure."""
