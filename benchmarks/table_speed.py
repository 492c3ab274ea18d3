"""How long ``fit`` and ``backtest`` take on large generated tables, and how much memory.

``python benchmarks/table_speed.py [ITEMS] [DAYS] [SCORED]``: a plan for so many items with so many
days each, flat, from Parquet files, on all cores; then a backtest of SCORED items over 52 weeks,
after two years of weeks. Peak memory is that of this process and of its largest worker.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

from joblib import cpu_count

from iopea.tables import generate_sales
from iopea.tables.backtest import backtest
from iopea.tables.fit import fit


def peak():
    """Gigabytes, of this process and of the largest of its children."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return [round(resource.getrusage(each).ru_maxrss / 1e6, 2) for each in who]


def timed(name, work):
    """Run, and print the seconds."""
    start = time.monotonic()
    found = work()
    print(f"{name}: {time.monotonic() - start:.1f} s on {cpu_count()} cores, {found}", flush=True)


def main():
    """Make the tables, and measure."""
    items, days, scored = map(int, sys.argv[1:] + ["10000", "730", "1000"][len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as folder:
        history, about = Path(folder) / "history.parquet", Path(folder) / "items.parquet"
        made = generate_sales(items, days, "day", seed=8400, trend=0, season=0, weekday=0)
        made.history.write_parquet(history)
        made.items.write_parquet(about)
        del made
        few = generate_sales(20, 60, seed=1)  # compiles, and starts the workers
        fit(few.history, few.items, workers=0)
        backtest(few.history, few.items, "2023-01-02", workers=0)
        timed(f"fit, {items} items x {days} days", lambda: fit(history, about, workers=0))
        print(f"peak memory, GB: {peak()}", flush=True)
        weeks = generate_sales(scored, 156, seed=8401)
        timed(
            f"backtest, {scored} items x 52 reviews",
            lambda: backtest(weeks.history, weeks.items, "2024-01-01", workers=0),
        )
        print(f"peak memory, GB: {peak()}")


if __name__ == "__main__":
    main()
