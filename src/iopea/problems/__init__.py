"""Base classes of problems, evaluators and simulators."""
