"""Studies: the reproduction of the paper and the measured guarantees; imported on demand."""
