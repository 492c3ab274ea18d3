"""The experiments of the paper, beside the printed numbers."""
