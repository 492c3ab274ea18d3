"""Testing claimed information orders, and proposing orders from simulations."""
