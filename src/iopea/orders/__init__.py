"""Testing and discovering information orders."""
