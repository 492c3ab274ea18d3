"""Comparing learners: tasks, stored rows, statistics, tables and reports."""
