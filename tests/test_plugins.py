"""Classes from outside the package: registered, imported, or declared by a package."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import iopea
from iopea.comparison.tasks import Task, system_text
from iopea.errors import InputError
from iopea.plugins import REGISTRIES, import_plugins, plugins_of, prepare, register
from iopea.problems.batches import Batches
from own_classes import ENTRIES, PROBLEM_FILES, registered_for_now, write_package

ROOT = Path(__file__).parents[1]
LEADER = """
import iopea

@iopea.register
class Idle(iopea.RandomPolicy):
    name = "idle"
"""


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    with registered_for_now():
        monkeypatch.setattr(sys, "path", [*sys.path])
        yield


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package of its own with a learner, a problem, a family and a rule, as if installed."""
    return write_package(tmp_path_factory.mktemp("installed"), installed=True)


@pytest.fixture
def installed(package, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.syspath_prepend(package)


def command(*words, folder, check=True):
    done = subprocess.run(
        [sys.executable, "-m", "iopea", *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0 or not check, done.stderr
    return done


class Mine(iopea.RandomPolicy):
    name = "mine"


def test_a_registered_class_is_found_by_its_name():
    assert register(Mine) is Mine
    assert iopea.LEARNERS["mine"] is Mine
    assert "mine" in list(iopea.LEARNERS)
    assert iopea.LEARNERS.refused == []


class Unnamed(iopea.RandomPolicy):
    name = "two words"


class Numbered(iopea.RandomPolicy):
    name = 3


class Taken(iopea.RandomPolicy):
    name = "iopea"


class Hidden(iopea.Learner):
    name = "hidden"
    needs = "nothing"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (dict, "Cannot register dict, a subclass of none of Learner, Problem, PolicyFamily, Rule"),
        (3, "Cannot register 3, a subclass of none"),
        (Mine(iopea.LostSales.example()[0]), "a subclass of none of"),
        (Unnamed, "its name is 'two words', but a name has letters, digits, - and _ alone"),
        (Numbered, "its name is 3, which is no text"),
        (Taken, "iopea itself has a learner 'iopea', so give it another name"),
        (Hidden, "it lacks _ask, _tell, fits, recommend, which every Learner has"),
    ],
)
def test_what_cannot_be_registered_is_refused_in_a_sentence(kind, words):
    with pytest.raises(InputError, match=words) as refused:
        register(kind)
    assert str(refused.value).endswith(".")


def test_a_name_is_not_taken_from_another_module():
    register(Mine)
    other = type("Mine", (iopea.RandomPolicy,), {"name": "mine", "__module__": "json"})
    with pytest.raises(InputError, match=r"'mine' is already that of .*test_plugins\.py, so"):
        register(other)
    again = type("Mine", (iopea.RandomPolicy,), {"name": "mine", "__module__": __name__})
    register(again)  # as when a cell of a notebook runs again
    assert iopea.LEARNERS["mine"] is again


def test_every_registry_takes_classes_from_outside():
    bases = {registry.base.__name__ for registry in REGISTRIES.values()}
    assert bases == {"Learner", "Problem", "PolicyFamily", "Rule", "Player"}
    kinds = [
        type("MyRule", (iopea.Paired,), {"name": "my-rule"}),
        type("MyPlayer", (iopea.Maximal,), {"name": "my-play"}),
    ]
    for kind in kinds:
        register(kind)
    shop, _ = iopea.LostSales.example()
    learner = iopea.IOPEA(shop, rule="my-rule", play="my-play")
    assert learner.settings()["rule"] == "my-rule"
    assert learner.settings()["play"] == "my-play"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.py", "There is no file"),
        ("no.such.module", "There is no module 'no.such.module', neither installed nor in"),
        ("no module", "A module is given by its dotted name"),
        ("", "A module is given by its dotted name"),
        ("json", "The module 'json' registers nothing: put @iopea.register before the classes"),
        ("broken.py", "Importing .*broken.py' fails, because of ZeroDivisionError: division"),
        ("nothing.py", "registers nothing"),
        ("leaves.py", "Importing .*leaves.py' fails, because of SystemExit"),
    ],
)
def test_modules_that_cannot_be_imported_are_refused(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("1 / 0\n")
    Path("nothing.py").write_text("x = 1\n")
    Path("leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(InputError, match=words) as refused:
        import_plugins([name])
    assert str(refused.value).endswith(".")


def test_a_file_can_be_imported_twice_and_after_a_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path("leader.py")
    file.write_text(LEADER)
    import_plugins(["leader.py"])
    first = iopea.LEARNERS["idle"]
    import_plugins(["leader.py"])
    assert iopea.LEARNERS["idle"] is first
    file.write_text(LEADER + "    needs = 'patience'\n")
    import_plugins(["leader.py"])
    assert iopea.LEARNERS["idle"].needs == "patience"


def test_a_key_depends_on_what_the_file_says_and_not_on_where_it_is(tmp_path):
    system = system_text(*iopea.LostSales.example())
    keys = []
    for folder, text in (("a", LEADER), ("b", LEADER), ("c", LEADER + "# another\n")):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "leader.py"
        file.write_text(text)
        with registered_for_now():
            import_plugins([str(file)])
            keys.append(Task("shop", system, "idle", horizons=(10,)).key)
    assert keys[0] == keys[1] != keys[2]


def test_another_process_needs_the_same_version(tmp_path):
    file = tmp_path / "leader.py"
    file.write_text(LEADER)
    import_plugins([str(file)])
    used = plugins_of("idle", {})
    prepare(used)  # it is here
    forget()
    prepare(used)  # it is fetched
    assert "idle" in iopea.LEARNERS
    forget()
    file.write_text(LEADER + "# changed since\n")
    with pytest.raises(InputError, match="'idle' of a worker is another version than the one here"):
        prepare(used)
    file.unlink()
    forget()
    with pytest.raises(InputError, match="is in a file that a worker does not have"):
        prepare(used)


@pytest.mark.usefixtures("installed")
def test_what_a_package_declares_is_found():
    assert {"follow-the-leader"} <= set(iopea.LEARNERS)
    assert {"reserve-price"} <= set(iopea.PROBLEMS)
    assert {"capped"} <= set(iopea.FAMILIES.names)
    assert {"rarer"} <= set(iopea.RULES)
    assert iopea.LEARNERS["follow-the-leader"].__module__ == "own.learner"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", PROBLEM_FILES)
def test_problem_files_and_commands_know_it(name, package, tmp_path):
    (tmp_path / "p.toml").write_text(PROBLEM_FILES[name])
    out = command("check-order", "p.toml", "--json", folder=tmp_path)
    assert json.loads(out.stdout)["holds"] is True
    words = ("learn", "p.toml", "--json", "--horizon", 600, "--seeds", 2)
    leads = name == "auction"  # the other class has width above 1
    for more in [("--rule", "rarer")] + [("--learner", "follow-the-leader")] * leads:
        found = json.loads(command(*words, *more, folder=tmp_path).stdout)
        assert len(found["runs"]) == 2
        assert all(np.isfinite(run["regret"]) for run in found["runs"])


@pytest.mark.usefixtures("installed")
def test_workers_find_it(tmp_path):
    """The problem, the family and the learner of a package, on two workers and on one."""
    for name, text in PROBLEM_FILES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    rows = []
    for workers in (1, 2):
        out = f"out{workers}"
        command(
            "compare", *(f"{name}.toml" for name in PROBLEM_FILES), "--learners",
            "iopea,follow-the-leader", "--horizon", 300, "--seeds", 2, "--workers", workers,
            "--out", out, folder=tmp_path,
        )  # fmt: skip
        rows.append(command_rows(tmp_path / out))
    assert rows[0].equals(rows[1])
    assert set(rows[0]["learner"].unique()) == {"best", "iopea", "follow-the-leader"}


def forget():
    """As in another process."""
    for registry in REGISTRIES.values():
        registry.registered.clear()
    for name in [name for name in sys.modules if name.startswith("iopea_import_")]:
        del sys.modules[name]


def command_rows(folder):
    import polars as pl

    parts = [pl.read_parquet(file) for file in sorted((folder / "tasks").glob("*.parquet"))]
    assert parts
    return pl.concat(parts).drop("seconds")


def test_a_file_is_imported_by_commands_and_workers(tmp_path):
    (tmp_path / "leader.py").write_text(LEADER)
    more = ("--import", "leader.py")
    example = ROOT / "examples" / "newsvendor.toml"
    listed = command("learners", "--json", *more, folder=tmp_path).stdout
    assert "idle" in [row["name"] for row in json.loads(listed)["learners"]]
    done = command(
        "compare", example, "--learners", "order-up-to,idle", "--horizon", 200, "--seeds", 2,
        "--workers", 2, *more, folder=tmp_path,
    )  # fmt: skip
    assert "idle" in done.stdout
    page = (tmp_path / "out" / "comparison" / "report.html").read_text()
    assert "--import leader.py" in page


def test_a_learner_of_your_own_is_a_row_of_the_paper_s_tables(tmp_path):
    (tmp_path / "leader.py").write_text(LEADER)
    done = command(
        "reproduce", "table1", "--only", "inventory-small-normal", "--rows", "idle", "--import",
        "leader.py", "--seeds", 1, "--without", "problem-specific", "--profile", "as-stated",
        folder=tmp_path,
    )  # fmt: skip
    assert "idle" in done.stdout


@pytest.mark.usefixtures("installed")
def test_a_package_that_is_broken_concerns_only_those_who_use_it(package, tmp_path, monkeypatch):
    broken = tmp_path / "site"
    write_entry(broken, "broken", "[iopea.learners]\nugly = nowhere_at_all:Ugly\niopea = own:X\n")
    monkeypatch.setenv("PYTHONPATH", f"{package}:{broken}")
    done = command("learners", folder=tmp_path)
    assert "Warning: The learner 'ugly' of the package broken 1.0 (nowhere_at_all:Ugly) can't be " \
        "loaded, because of ModuleNotFoundError" in done.stderr  # fmt: skip
    assert "Warning: The learner 'iopea' of the package broken 1.0 is not used" in done.stderr
    assert "follow-the-leader" in done.stdout
    done = command("learn", "--learner", "ugly", folder=tmp_path, check=False)
    assert done.returncode == 2
    assert "can't be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def write_entry(folder, name, entries):
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def test_the_groups_of_the_package_are_those_of_the_page():
    page = (ROOT / "docs" / "add-a-learner.md").read_text()
    for group in REGISTRIES:
        assert f"| `{group}` |" in page
    assert set(ENTRIES) <= set(REGISTRIES)


def test_own_learners_look_like_no_other_one():
    from iopea.comparison.figures import _STYLES, style_of

    own = [f"own-{number}" for number in range(20)]
    styles = [style_of(name, [*_STYLES, *own]) for name in (*_STYLES, *own)]
    assert len(set(styles)) == len(styles)
    assert (
        len({style[0] for style in styles[len(_STYLES) :][:7]} - {s[0] for s in styles[:13]}) == 7
    )


def learner_with(**changes):
    return type("Own", (iopea.OrderUpTo,), {"name": "own", **changes})


BROKEN = {
    "no policy": (
        learner_with(recommend=lambda self: None),
        "The learner 'own' recommends None: recommend\\(\\) returns a policy of the class",
    ),
    "a number": (learner_with(recommend=lambda self: 20), "recommends 20: recommend"),
    "outside": (learner_with(recommend=lambda self: (200.5,)), r"recommends \(200.5,\): recommend"),
    "no play": (
        learner_with(_ask=lambda self: ((3.0,), 5)),
        r"asks for \(\(3.0,\), 5\): _ask returns a Play of at least 1 step",
    ),
    "no steps": (learner_with(_ask=lambda self: iopea.Play((3.0,), 0, 1)), "at least 1 step"),
    "no problem": (
        learner_with(__init__=lambda self, problem, *, horizon=None, seed=0: None),
        r"has no problem: call super\(\).__init__\(problem, horizon, seed\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_learner_that_breaks_the_contract_is_told_so(name):
    kind, words = BROKEN[name]
    shop, demand = iopea.LostSales.example()
    with pytest.raises(InputError, match=words):
        iopea.run(kind(shop), shop.simulator(demand), 50)


def test_a_state_that_is_not_all_saved_is_named():
    from iopea.testing import ContractError, check_learner

    class Forgetful(iopea.OrderUpTo):
        name = "forgetful"
        reviewed = 0

        def _take_in(self):
            super()._take_in()
            self.reviewed += 1

        def _ask(self):
            asked = super()._ask()
            return iopea.Play((float(self.reviewed % 2),), asked.steps, asked.epoch)

    with pytest.raises(ContractError, match="is everything that changes named in `saved`"):
        check_learner(Forgetful, *iopea.LostSales.example())


def test_unknown_names_get_the_nearest():
    with pytest.raises(KeyError, match="Unknown learner 'iopae': did you mean 'iopea'"):
        iopea.LEARNERS["iopae"]
    with pytest.raises(InputError, match="did you mean"):
        iopea.LEARNERS["iopae"]
    assert iopea.LEARNERS.get("iopae") is None


def test_a_start_can_be_changed():
    shop = iopea.LostSales.example()[0].changed(start=4)
    assert shop.start == (4.0,)
    assert shop.changed(lead_time=3).start == (4.0,)
    with pytest.raises(InputError, match="Unknown key in LostSales 'strat': did you mean 'start'"):
        shop.changed(strat=3)


# What is compared of a package.

FIXED = """
import iopea
from fixed_package import helper

@iopea.register
class Fixed(iopea.RandomPolicy):
    name = "fixed"
    LEVEL = helper.LEVEL
"""


def write_fixed(folder, level, package=True):
    inner = folder / "fixed_package"
    inner.mkdir(parents=True, exist_ok=True)
    if package:
        (inner / "__init__.py").write_text("")
    (inner / "helper.py").write_text(f"LEVEL = {level}\n")
    (inner / "fixed.py").write_text(FIXED)


def forget_fixed():
    """As in another process."""
    from iopea.registry import _digest_in

    forget()
    _digest_in.cache_clear()
    for name in [name for name in sys.modules if name.startswith("fixed_package")]:
        del sys.modules[name]


@pytest.mark.parametrize("package", [True, False])
def test_all_modules_of_a_package_count(package, tmp_path, monkeypatch):
    system = system_text(*iopea.LostSales.example())
    keys = []
    for folder, level in (("a", 1), ("b", 1), ("c", 2)):
        write_fixed(tmp_path / folder, level, package)
        monkeypatch.chdir(tmp_path / folder)
        forget_fixed()
        with monkeypatch.context() as now:
            now.setattr(sys, "path", [*sys.path])
            import_plugins(["fixed_package.fixed"])
            assert level == iopea.LEARNERS["fixed"].LEVEL
            keys.append(Task("shop", system, "fixed", horizons=(10,)).key)
    assert keys[0] == keys[1] != keys[2]
    forget_fixed()


def test_a_worker_with_another_module_of_the_package_is_refused(tmp_path, monkeypatch):
    write_fixed(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    forget_fixed()
    import_plugins(["fixed_package.fixed"])
    used = plugins_of("fixed", {})
    write_fixed(tmp_path, 2)
    forget_fixed()
    with pytest.raises(
        InputError, match="'fixed' of a worker is another version than the one here"
    ):
        prepare(used)
    forget_fixed()


def test_a_class_that_is_defined_anew_is_looked_at_anew(tmp_path, monkeypatch):
    write_fixed(tmp_path, 1)
    monkeypatch.chdir(tmp_path)
    forget_fixed()
    import_plugins(["fixed_package.fixed"])
    first = iopea.LEARNERS.plugin("fixed").digest
    write_fixed(tmp_path, 2)
    register(iopea.LEARNERS["fixed"])
    assert iopea.LEARNERS.plugin("fixed").digest != first
    forget_fixed()


# Where a plug-in fails.


class Ends(iopea.RandomPolicy):
    name = "ends"

    def _tell(self, trajectory):
        sys.exit(3)


class Raises(iopea.RandomPolicy):
    name = "raises"

    def _tell(self, trajectory):
        raise RuntimeError("boom")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Ends, r"failed: SystemExit: 3 \(test_plugins\.py, line \d+\)\.$"),
        (Raises, r"failed: RuntimeError: boom \(test_plugins\.py, line \d+\)\.$"),
    ],
)
def test_a_task_that_fails_says_why_and_where(kind, words):
    from iopea.comparison.runner import _carry_out
    from iopea.errors import ComputationError

    register(kind)
    system = system_text(*iopea.LostSales.example())
    task = Task("shop", system, kind.name, horizons=(10,), evaluation=1000)
    best = task.best.perform([])
    with pytest.raises(ComputationError, match=words):
        _carry_out(task, [best], None)


def test_an_error_of_a_plug_in_is_told_from_one_of_the_package():
    from iopea.plugins import failure, is_of_plugin

    register(Raises)
    shop, demand = iopea.LostSales.example()
    with pytest.raises(RuntimeError) as theirs:
        iopea.run(Raises(shop), shop.simulator(demand), 5)
    assert is_of_plugin(theirs.value)
    assert failure(theirs.value).startswith("RuntimeError: boom (test_plugins.py, line ")
    with pytest.raises(TypeError) as ours:
        Batches("x")
    assert not is_of_plugin(ours.value)
    assert not is_of_plugin(KeyError("a"))


FAILING = """
import sys, iopea

@iopea.register
class Raises(iopea.RandomPolicy):
    name = "raises"

    def _tell(self, trajectory):
        raise RuntimeError("boom")

@iopea.register
class Ends(iopea.RandomPolicy):
    name = "ends"

    def _tell(self, trajectory):
        sys.exit(3)
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("learn", "--learner", "raises"), "RuntimeError: boom (failing.py, line 9)."),
        (("learn", "--learner", "ends"), "SystemExit: 3 (failing.py, line 16)."),
        (("compare", "--learners", "ends", "--workers", 2), "SystemExit: 3 (failing.py, line 16)."),
    ],
)
def test_commands_end_with_a_sentence_where_a_plug_in_fails(words, expected, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    command_name, *more = words
    done = command(
        command_name, ROOT / "examples" / "newsvendor.toml", *more, "--import", "failing.py",
        "--horizon", 50, "--seeds", 1, folder=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


# Two classes of one name, and entry points.


def declared(folder, monkeypatch, entries, code=LEADER):
    """A package that was installed, whose modules are in the same folder."""
    write_entry(folder, "mypack", entries)
    (folder / "mypack_leader.py").write_text(code)
    monkeypatch.syspath_prepend(folder)


def test_a_name_is_not_taken_from_an_installed_package(tmp_path, monkeypatch):
    declared(tmp_path / "site", monkeypatch, "[iopea.learners]\nidle = mypack_leader:Idle\n")
    file = tmp_path / "leader.py"
    file.write_text(LEADER)
    words = r"Cannot register Idle of .*leader\.py: the package mypack 1\.0 \(mypack_leader:Idle\)"
    with pytest.raises(InputError, match=f"{words} has a learner 'idle' already"):
        import_plugins([str(file)])


def test_a_class_may_be_declared_and_registered(tmp_path, monkeypatch):
    declared(tmp_path / "site", monkeypatch, "[iopea.learners]\nidle = mypack_leader:Idle\n")
    assert iopea.LEARNERS["idle"].__module__ == "mypack_leader"
    assert iopea.LEARNERS.registered["idle"] is iopea.LEARNERS["idle"]
    import_plugins(["mypack_leader"])
    sys.modules.pop("mypack_leader")


def test_a_module_whose_class_is_declared_need_not_register_it(tmp_path, monkeypatch):
    entries = "[iopea.learners]\nidle = mypack_leader:Idle\n"
    plain = LEADER.replace("@iopea.register\n", "")
    declared(tmp_path / "site", monkeypatch, entries, plain)
    import_plugins(["mypack_leader"])
    assert iopea.LEARNERS["idle"].__module__ == "mypack_leader"
    sys.modules.pop("mypack_leader")


def test_wrong_entry_points_are_told_how_to_be_right(tmp_path, monkeypatch):
    from iopea.registry import strangers

    entries = (
        "[iopea.learner]\nidle = mypack_leader:Idle\n[iopea.learners]\nwrong = mypack_leader:Idle\n"
    )
    declared(tmp_path / "site", monkeypatch, entries)
    assert strangers(REGISTRIES) == [
        "'idle' of the package mypack 1.0 (mypack_leader:Idle) is not used. Unknown group of entry "
        "points 'iopea.learner': did you mean 'iopea.learners'?"
    ]
    with pytest.raises(InputError, match="its name is 'idle', so rename the entry point to idle"):
        iopea.LEARNERS["wrong"]
    sys.modules.pop("mypack_leader")


def test_one_broken_class_does_not_take_down_the_list_of_learners(tmp_path):
    (tmp_path / "broken.py").write_text(
        LEADER + "    @classmethod\n    def fits(cls, problem):\n        return problem.nothing\n"
    )
    done = command("learners", "--json", "--import", "broken.py", folder=tmp_path)
    assert {row["name"]: row["fits"] for row in json.loads(done.stdout)["learners"]}["idle"] == []
    assert "Warning: Idle.fits of the learner 'idle' fails on a lost-sales problem" in done.stderr
