"""The experiments of the paper, compared with the printed numbers."""
