"""The M/M/1/L queue with deadlines."""
