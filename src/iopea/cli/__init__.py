"""The command line: one file per command.

So that ``iopea --help`` answers at once, a command imports at its top only the standard library,
Typer and the names of :mod:`iopea`, which load when they are used; anything else inside the
function that needs it.
"""
