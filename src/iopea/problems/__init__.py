"""What a problem, its evaluators and its simulators are."""
