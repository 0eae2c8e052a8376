"""The commands, one file each or a group, and `main`, which loads the one that is wanted."""
