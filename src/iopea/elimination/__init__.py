"""When an epoch ends, and which policies survive it."""
