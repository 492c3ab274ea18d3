"""Shared code of all inventory systems with censored demand."""
