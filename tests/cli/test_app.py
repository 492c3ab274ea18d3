import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--horizon", "0"], ["horizon", "0"]),
        (["--horizon", "many"], ["horizon", "'many'"]),
        (["--seeds", "0"], ["seeds", "0"]),
        (["--workers", "-1"], ["workers", "-1"]),
        (["--rule", "theorm"], ["theorm", "did you mean 'theorem'"]),
        (["--restart", "nine"], ["nine", "did you mean 'none'"]),
        (["--delta", "1.5"], ["delta", "1.5"]),
        (["--plot", "picture.doc"], ["picture.doc", ".png"]),
        (
            ["--plot", "/proc/nowhere/picture.png", "--horizon", "100", "--seeds", "1"],
            ["picture.png"],
        ),
        (["--delta", "half"], ["delta", "'half'"]),
        (["--radius", "0"], ["radius", "0"]),
        (["--radius", "1e-12"], ["1e-12", "points"]),
        (["--seeds", "1.5"], ["seeds", "'1.5'"]),
        (["--horizon", "1000000000000000", "--radius", "1"], ["1000000000", "horizon"]),
        (["no-such-file.toml"], ["no-such-file.toml"]),
        (["--horizn", "5"], ["--horizn", "--horizon"]),
    ],
)
def test_wrong_arguments_end_with_a_sentence_and_status_2(iopea, arguments, words):
    status, out, err = iopea("learn", *arguments)
    assert status == 2
    assert out == ""
    assert "Traceback" not in err
    *progress, last = err.splitlines()
    assert all("of all steps" in line for line in progress)  # on a slow machine
    for word in words:
        assert word in last


def test_an_interrupted_run_ends_cleanly(tmp_path):
    picture = tmp_path / "p.png"
    # A process of a job in the background is started with interrupts ignored.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from iopea.cli.app import main; print('ready', flush=True); main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "learn", "--horizon", "4000000", "--seeds", "50",
         "--radius", "0.1", "--plot", str(picture)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert out == ""
    *progress, last = err.splitlines()
    assert last == "Interrupted: no report was written."
    assert all("of all steps" in line or "preparing" in line for line in progress)
    assert not picture.exists()
