"""Experiments: scenarios as data, a resumable runner, tables, figures and reports."""
