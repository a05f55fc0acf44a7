"""Tests that need a separate process: exit codes, pipes, terminals, imported modules."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from intarsia.cli import main

COMMANDS = ["inspect", "explain", "query", "index", "lake-index", "detach", "verify"]


def command(*arguments):
    return [sys.executable, "-m", "intarsia", *map(str, arguments)]


def test_exit_code(tmp_path):
    run = subprocess.run(command("query", tmp_path / "nowhere"), capture_output=True, check=False, text=True)
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1


def test_version(run):
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("intarsia ")


def test_help_names_every_command(run):
    for arguments in ([], ["--help"]):
        outcome = run(*arguments)
        assert outcome.code == 0
        for name in COMMANDS:
            assert f"\n  {name} " in outcome.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(run, name):
    out = run(name, "--help").out
    examples = out.partition("\nExamples:\n")[2].splitlines()
    assert len(examples) >= 2
    assert all(line.startswith(f"  intarsia {name} ") for line in examples)


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "table"])
def test_a_closed_pipe_is_quiet(tmp_path, form):
    from tests.cli.trips import trips, write

    path = tmp_path / "many.parquet"
    write(trips(count=15_000), path)
    arguments = command("query", path, "--format", form, "--where", "id >= 0", "--limit", "15000")
    run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.read(10)
    run.stdout.close()
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait() in (0, 1)


def test_interrupt(tmp_path):
    """A full pipe without a reader blocks the command until it is interrupted."""
    from tests.cli.trips import trips, write

    path = tmp_path / "many.parquet"
    write(trips(count=15_000), path)
    arguments = command("query", path, "--format", "csv")
    run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.read(10)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    run.stdout.close()
    err = run.stderr.read()
    run.stderr.close()
    assert run.wait() in (1, 130)  # 1 if the closed pipe came first
    assert b"Traceback" not in err


def on_terminal(arguments, width=100, stdout=True):
    """Run with a terminal as stderr (and stdout), and return what came to each."""
    master, slave = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    environment |= {"TERM": "xterm"}
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    target = slave if stdout else subprocess.PIPE
    run = subprocess.Popen(arguments, stdout=target, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux says so when the last process closed the terminal
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    out = b"" if stdout else run.stdout.read()
    if not stdout:
        run.stdout.close()
    run.wait()
    return shown.decode(), out.decode(), run.returncode


def test_progress_is_for_terminals(file):
    shown, out, code = on_terminal(command("index", file, "--page-index"), stdout=False)
    assert code == 0
    assert "indexing" in shown
    assert out.startswith("indexed 1 of 1 file ")
    assert "\x1b" not in out


def test_a_terminal_gets_a_summary(file):
    arguments = command("query", file, "--where", "id = 3", "--format", "csv")
    shown, out, _ = on_terminal(arguments, stdout=False)
    assert "1 row; read 1 of 1 file, " in shown
    assert out == '"id","city","km"\n3,"Cologne",0.75\n'


def test_errors_are_red_on_a_terminal(tmp_path):
    shown, _, code = on_terminal(command("query", tmp_path / "nowhere"))
    assert code == 1
    assert shown.startswith("\x1b[31mintarsia:\x1b[0m ")


def test_columns_that_do_not_fit_are_named(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"column_{place}": ["x" * 60] for place in range(8)}), path)
    shown, _, _ = on_terminal(command("query", path), width=70)
    lines = shown.replace("\r", "").splitlines()
    assert lines[0] == "column_0"
    assert lines[1] == "x" * 47 + "…"
    assert lines[2].startswith("(and 7 columns that do not fit into the terminal: column_1, ")


def test_binary_formats_spare_the_terminal(file):
    shown, _, code = on_terminal(command("query", file, "--format", "parquet"))
    assert code == 2
    assert "--output" in shown


def test_help_loads_nothing_heavy():
    program = (
        "import sys, intarsia.cli; code = intarsia.cli.main(['query', '--help']);"
        "print(code, *[n for n in ('pandas', 'pyspark', 'obstore', 'sqlglot') if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert out.splitlines()[-1] == "0"


def test_main_takes_arguments(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("intarsia ")
