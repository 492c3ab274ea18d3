"""The command line as ``python -m iopea``."""

from iopea.cli.app import main

if __name__ == "__main__":
    main()
