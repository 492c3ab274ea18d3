"""Start-up time of the command line, compared with a bare Typer app of two commands.

Runs alternate, so that other load on the machine affects all of them; ratios are of medians.
The aim: `iopea --help` and `iopea learn --help` take at most 1.5 times the bare app's `--help`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = '''
import typer

app = typer.Typer()


@app.command()
def hello(name: str) -> None:
    """Say hello."""
    typer.echo(f"Hello {name}")


@app.command()
def bye(name: str) -> None:
    """Say bye."""
    typer.echo(f"Bye {name}")


app()
'''
IOPEA = [sys.executable, "-c", "from iopea.cli.app import main; main()"]


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=21)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        commands = {
            "bare --help": [sys.executable, str(bare), "--help"],
            "iopea --help": [*IOPEA, "--help"],
            "iopea learn --help": [*IOPEA, "learn", "--help"],
        }
        for command in commands.values():
            seconds(command)  # warm-up: compiles and caches all files
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(seconds(command))
    medians = {name: statistics.median(values) for name, values in times.items()}
    least = medians["bare --help"]
    print(f"Python {sys.version.split()[0]}, medians of {runs} runs")
    for name, median in medians.items():
        print(f"{name:20} {1000 * median:6.0f} ms   {median / least:5.2f} times the bare app")


if __name__ == "__main__":
    main()
