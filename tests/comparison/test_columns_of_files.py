"""Labels of columns that don't say which file they are."""

import shutil
from pathlib import Path

import pytest

from iopea.cli import app as cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "newsvendor.toml"


@pytest.mark.parametrize(
    ("second", "said"),
    [("other/shop.toml", "Files: shop is shop.toml, shop-2 is other/shop.toml."), ("b.toml", "")],
)
def test_files_of_one_name_are_told_apart(second, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("other").mkdir()
    for file in ("shop.toml", second):
        shutil.copy(EXAMPLE, file)
    words = ("--learners", "order-up-to", "--horizon", "20", "--seeds", "1", "--workers", "1")
    monkeypatch.setattr("sys.argv", ["iopea", "compare", "shop.toml", second, *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    shown = " ".join(capsys.readouterr().out.split())
    assert (said in shown) if said else ("Files:" not in shown)
    page = Path("out/comparison/report.html").read_text()
    assert said in page
