"""Compiled kernels: arrays in, arrays out; nothing here knows a class."""
