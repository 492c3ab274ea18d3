"""The command line: one file per command.

To keep ``iopea --help`` fast, the module of a command imports only the standard library, Typer and
:mod:`iopea`, whose names are loaded on first use. Everything else is imported inside functions.
"""
