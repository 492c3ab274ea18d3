"""What the library promises, measured: studies that pass or fail."""
