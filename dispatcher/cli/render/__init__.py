"""What commands show: jobs, progress, and text that is safe on a terminal."""
