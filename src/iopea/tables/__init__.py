"""Sales tables: read what was sold and what was in stock, for many items."""

from iopea.tables.generator import Generated, generate_sales
from iopea.tables.reading import Sales, read_sales

__all__ = ["Generated", "Sales", "generate_sales", "read_sales"]
