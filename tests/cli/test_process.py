"""Tests that need a separate process: exit codes, pipes, terminals, imported modules."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.cli import main
from tests import child
from tests.cli.trips import trips, write

COMMANDS = ["inspect", "explain", "query", "index", "lake-index", "detach", "verify"]


#: The command in a process that is forked, as a user's terminal starts it.
COMMAND = """
import os, sys
from intarsia.cli import main
for name in ("NO_COLOR", "COLUMNS"):
    os.environ.pop(name, None)
os.environ["TERM"] = "xterm"
sys.exit(main(sys.argv[1:]))
"""


def command(*arguments):
    return [sys.executable, "-m", "intarsia", *map(str, arguments)]


def test_exit_code(tmp_path):
    run = subprocess.run(command("query", tmp_path / "nowhere"), capture_output=True, check=False, text=True)
    assert run.returncode == 1
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("name", ["\u65e5\u672c.parquet", os.fsdecode(b"\xff.parquet")])
def test_names_that_the_encoding_lacks(tmp_path, encoding, name):
    """They are escaped, in JSON as in JSON."""
    write(trips(), tmp_path / "plain.parquet")
    try:
        path = (tmp_path / "plain.parquet").rename(tmp_path / name)
    except OSError:
        pytest.skip("the file system refuses the name")
    environment = {**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"}
    page = tmp_path / "map.html"
    for arguments in (
        ("inspect", path, "--json"),
        ("verify", path, "--json"),
        ("inspect", path),
        ("map", path, "-o", page),
        ("map", path, "-o", tmp_path / "map.svg"),
    ):
        done = subprocess.run(command(*arguments), capture_output=True, check=False, env=environment)
        assert (done.returncode, done.stderr) == (0, b""), arguments
        if "--json" in arguments:
            assert json.dumps(name)[1:-1] in json.dumps(json.loads(done.stdout))


#: The command, interrupted while it imports a module.
INTERRUPTED = """
import os, signal, sys

class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

from intarsia.cli import main
sys.meta_path.insert(0, Interrupt)
sys.exit(main(["--version"]))
"""


@pytest.mark.parametrize("module", ["numpy", "pyarrow", "click", "intarsia.cli.query_command"])
def test_an_interrupt_of_the_imports_is_one_line(module):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module], capture_output=True, check=False, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "intarsia: interrupted\n")


def test_version(run):
    outcome = run("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("intarsia ")


COLLECTED = """
import gc
from intarsia.cli import main
main(["--version"])
first, cycle = gc.get_freeze_count(), []
cycle.append(cycle)
main(["--version"])
print(gc.isenabled(), first > 10_000, gc.get_freeze_count() == first)
"""


def test_modules_are_no_part_of_garbage_collections():
    """But what a process creates between two commands is."""
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "True True True"


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


@pytest.mark.parametrize(("name", "usage"), [("query", "PATH..."), ("optimize", "[SOURCE]... [DESTINATION]")])
def test_help_describes_arguments(run, name, usage):
    out = run(name, "--help").out
    assert out.splitlines()[0] == f"Usage: intarsia {name} [OPTIONS] {usage}"
    arguments = out.partition("\nArguments:\n")[2].partition("\nOptions:\n")[0]
    assert "Files, folders or globs" in arguments
    assert out.count("Files, folders or globs") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_a_shell(run, shell):
    outcome = run("--show-completion", shell)
    assert outcome.code == 0
    assert f"_INTARSIA_COMPLETE={shell}_complete" in outcome.out


def test_words_that_complete_a_command(file):
    """As the script of a shell asks for them."""

    def completed(*words):
        asked = {"COMP_WORDS": " ".join(("intarsia", *words)), "COMP_CWORD": str(len(words))}
        environment = {**os.environ, "_INTARSIA_COMPLETE": "bash_complete", **asked}
        done = subprocess.run(command(), capture_output=True, check=True, text=True, env=environment)
        return done.stdout.splitlines()

    assert completed("que") == ["plain,query"]
    assert completed("query", "--lim") == ["plain,--limit"]
    assert completed("query", "--format", "js") == ["plain,json", "plain,jsonl"]
    assert completed("query", str(file)[:-3]) == [f"file,{str(file)[:-3]}"]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A file whose rows fill a pipe."""
    path = tmp_path_factory.mktemp("many") / "many.parquet"
    write(trips(count=15_000), path)
    return path


def test_a_closed_pipe_is_quiet(many):
    arguments = command("query", many, "--format", "csv", "--where", "id >= 0", "--limit", "15000")
    run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.read(10)
    run.stdout.close()
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait() == 141


@pytest.mark.parametrize("form", ["jsonl", "arrow", "table"])
def test_a_closed_pipe_is_quiet_in_other_formats(many, tmp_path, form):
    """Without the end of the interpreter, which is the same for all formats."""
    out, err = tmp_path / "out", tmp_path / "err"
    os.mkfifo(out)
    err.touch()
    arguments = ("query", many, "--format", form, "--where", "id >= 0", "--limit", "15000")
    with child.python().writing(COMMAND, *arguments, output=out, errors=err) as ended:
        with open(out, "rb", buffering=0) as pipe:
            assert pipe.read(10)
        assert ended() == 141
    assert err.read_text() == ""


@pytest.mark.parametrize("arguments", [("query", "--limit", "1"), ("--help",)])
def test_a_pipe_that_is_closed_before_the_first_row(many, arguments):
    """Little output is written when the command ends."""
    path = () if arguments == ("--help",) else (many,)
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(command(*arguments, *path), stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, b"")


def test_a_pipeline_like_those_of_the_documents(many):
    pipeline = shlex.join(command("query", many, "--format", "jsonl")) + " | head -1"
    run = subprocess.run(pipeline, shell=True, capture_output=True, check=True, text=True)
    assert (len(run.stdout.splitlines()), run.stderr) == (1, "")


def test_interrupt(many):
    """A full pipe without a reader blocks the command until it is interrupted."""
    arguments = command("query", many, "--format", "csv")
    run = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.read(10)
    time.sleep(0.2)
    run.send_signal(signal.SIGINT)
    run.stdout.close()
    err = run.stderr.read()
    run.stderr.close()
    assert run.wait() in (130, 141)  # the latter if the closed pipe came first
    assert b"Traceback" not in err


def on_terminal(*arguments, width=100, output=None):
    """Run with a terminal as stderr (and stdout); return what it shows, and the exit code."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    terminal = os.ttyname(slave)
    # the little that these commands print fits into the buffer of a terminal
    with child.python().writing(COMMAND, *arguments, output=output or terminal, errors=terminal) as ended:
        code = ended()
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # which Linux raises when the last process closed the terminal
        while piece := os.read(master, 65536):
            shown += piece
    os.close(master)
    return shown.decode(), code


@pytest.fixture
def output(tmp_path):
    """The path of a file for stdout."""
    path = tmp_path / "stdout"
    path.touch()
    return path


def test_a_terminal_gets_the_first_rows_and_a_notice(many, output):
    shown, code = on_terminal("query", many, width=200)
    lines = shown.replace("\r", "").splitlines()
    assert code == 0
    assert len(lines) == 1 + 40 + 2  # the names, the notice, and the summary on stderr
    assert lines[41].startswith("(the first 40 rows; ")
    assert "40 rows; read " in lines[42]
    shown, _ = on_terminal("query", many, "--where", "id < 1500", width=200)
    assert "(40 of 1,500 rows; " in shown
    shown, _ = on_terminal("query", many, "--where", "id < 40", width=200)
    assert "(40" not in shown
    shown, _ = on_terminal("query", many, output=output)
    assert len(output.read_text().splitlines()) == 15_001


def test_progress_is_for_terminals(file, output):
    shown, code = on_terminal("index", file, "--page-index", output=output)
    assert code == 0
    assert "indexing" in shown
    assert output.read_text().startswith("indexed 1 of 1 file ")
    assert "\x1b" not in output.read_text()


def test_a_terminal_gets_a_summary(file, output):
    shown, _ = on_terminal("query", file, "--where", "id = 3", "--format", "csv", output=output)
    assert "1 row; read 1 of 1 file, " in shown
    assert output.read_text() == '"id","city","km"\n3,"Cologne",0.75\n'


def test_errors_are_red_on_a_terminal(tmp_path):
    shown, code = on_terminal("query", tmp_path / "nowhere")
    assert code == 1
    assert shown.startswith("\x1b[31mintarsia:\x1b[0m ")


def test_columns_that_do_not_fit_are_named(tmp_path):
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"column_{place}": ["x" * 60] for place in range(8)}), path)
    shown, _ = on_terminal("query", path, width=70)
    lines = shown.replace("\r", "").splitlines()
    assert lines[0] == "column_0"
    assert lines[1] == "x" * 47 + "…"
    assert lines[2].startswith("(and 7 columns that do not fit in the terminal: column_1, ")


def test_binary_formats_spare_the_terminal(file):
    shown, code = on_terminal("query", file, "--format", "parquet")
    assert code == 2
    assert "--output" in shown


def test_help_loads_nothing_heavy():
    program = (
        "import sys, intarsia.cli; code = intarsia.cli.main(['query', '--help']);"
        "print(code, *[n for n in ('pandas', 'pyspark', 'obstore', 'sqlglot') if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert out.splitlines()[-1] == "0"


def test_a_simple_query_loads_neither_pandas_nor_sqlglot_nor_rich(file):
    program = (
        "import sys, intarsia.cli;"
        f"code = intarsia.cli.main(['query', {str(file)!r}, '--where', 'km = 5']);"
        "heavy = 'pandas', 'pyspark', 'obstore', 'sqlglot', 'rich.console', 'pydantic';"
        "print(code, *[n for n in heavy if n in sys.modules])"
        "; import pandas, pyarrow; print(pyarrow.table({'a': [1]}).to_pandas()['a'].sum())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    assert run.stdout.splitlines()[-2:] == ["0", "1"]


@pytest.mark.parametrize("threads", [None, "3"])
def test_processes_that_the_command_starts_have_its_environment(threads):
    """It starts without threads of OpenBLAS, which wait actively; a program that it starts may need them."""
    program = "import os, intarsia.cli; intarsia.cli.main(['--version']); print(os.environ.get(%r))"
    name = "OPENBLAS_NUM_THREADS"
    environment = {key: value for key, value in os.environ.items() if key != name}
    environment |= {} if threads is None else {name: threads}
    command = [sys.executable, "-c", program % name]
    run = subprocess.run(command, capture_output=True, check=True, text=True, env=environment)
    assert run.stdout.splitlines()[-1] == str(threads)


def test_main_takes_arguments(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("intarsia ")
