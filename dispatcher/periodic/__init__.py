"""Jobs that begin by a schedule: when, which are due, and their launch by the wall clock."""
