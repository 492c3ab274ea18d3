"""The learners that IOPEA is compared with, one file per algorithm."""
