"""The example service, end to end: its one command, its answers, and what it takes for a query."""

import importlib.util
import json
import re
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection

import numpy as np
import pytest
from nbtest import proc

EXAMPLE = proc.ROOT / "examples" / "query_service"
ROWS, PARTITIONS = 20_000, 4


def part(name):
    spec = importlib.util.spec_from_file_location(f"query_service_{name}", EXAMPLE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def queries():
    return part("queries")


@pytest.fixture(scope="module")
def table():
    return part("table")


@pytest.mark.long
def test_the_command_starts_everything_and_both_ways_answer_alike(table, tmp_path):
    options = f"--rows {ROWS} --partitions {PARTITIONS} --workers 2 --new 3 --clients 2 --seconds 0.5 --json"
    done = proc.run([EXAMPLE, *options.split()], timeout=600)
    assert done.status == 0, done.stdout + done.stderr
    measured = json.loads(done.stdout)
    published, compiled = measured["published"], measured["compiled"]
    assert published["sums"] == compiled["sums"] and len(published["sums"]) == 3
    assert published["rate"] > 0 and len(published["took"]) == 3
    # The first query of the load generator, as NumPy has it.
    table.write(tmp_path, ROWS, PARTITIONS)
    total = 0.0
    for number in table.partitions(tmp_path):
        rows = table.read(tmp_path, number)
        chosen = (rows["quantity"] < 24) & (rows["day"] >= 365)
        total += np.where(chosen, rows["price"] * (1 - rows["discount"]), 0).sum()
    revenue = "price * (1 - discount) if quantity < 24 and day >= 365 else 0"
    assert published["sums"][revenue] == pytest.approx(total, rel=1e-9)


def test_a_table_that_is_printed_has_both_columns():
    done = proc.run(
        [
            EXAMPLE,
            *[
                "--rows",
                "1000",
                "--partitions",
                "2",
                "--workers",
                "1",
                "--new",
                "1",
                "--clients",
                "1",
                "--seconds",
                "0.1",
            ],
        ]
    )
    assert done.status == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[2].split() == ["published", "compiled", "by", "each", "worker"]
    assert [line[:32].strip() for line in lines[3:]] == [
        "new query to its first answer",
        "processor time of a new query",
        "known queries a second",
        "a new worker's first answer",
        "memory of a worker, at most",
    ]


def test_a_query_in_other_blanks_and_brackets_is_the_same_query(queries, table):
    one = queries.parse("price*(1-discount)  if (day>3) else 0", table.COLUMNS)
    assert one == queries.parse("(price * (1 - discount)) if day > 3 else 0", table.COLUMNS)
    assert one.columns == ("day", "discount", "price")
    assert one.name != queries.parse("price", table.COLUMNS).name
    assert len(one.name) <= 100


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("price +", "not an expression"),
        ("salary * 2", "there is no column salary: there are day, discount, price, quantity, tax"),
        ("1 + 2", "the expression reads no column"),
        ("__import__('os').system('true')", "only sqrt, exp, log, abs, min, max can be called"),
        ("price.real", "Attribute is nothing that a query may consist of"),
        ("price if 'a' else 0", "'a' is not a number"),
        ("[price for price in tax]", "ListComp is nothing"),
        ("lambda: price", "Lambda is nothing"),
        ("sqrt + price", "there is no column sqrt"),
        ("price + " * 1000 + "1", "longer than 2000 characters"),
        ("(" * 500 + "price" + ")" * 500, "not an expression"),
    ],
)
def test_what_is_no_query_is_refused_before_anything_is_compiled(queries, table, text, said):
    with pytest.raises(queries.BadQueryError, match=said) as raised:
        queries.parse(text, table.COLUMNS)
    assert "\n" not in str(raised.value)


def test_a_service_that_stays_answers_in_json_and_says_what_is_wrong_with_a_query():
    options = ["--stay", "--rows", "1000", "--partitions", "2", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, EXAMPLE, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    port = int(re.search(r":(\d+)/query", process.stdout.readline())[1])

    def ask(body, path="/query"):
        with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as line:
            line.request("POST", path, body)
            answer = line.getresponse()
            return answer.status, json.loads(answer.read(), parse_constant=pytest.fail)

    status, said = ask('{"expression": "price - price + 2"}')
    assert (status, said) == (200, {"sum": 2000.0, "rows": 1000})
    for expression in ("log(price - price - 1)", "1 / (tax - tax)"):
        assert ask(json.dumps({"expression": expression})) == (200, {"sum": None, "rows": 1000})
    for body in (
        '{"expression": "price +"}',
        '{"expression": "sqrt(price, tax)"}',
        '{"expression": 5}',
        "{}",
        "[1]",
        "{",
    ):
        status, said = ask(body)
        assert status == 400 and said["error"] and "\n" not in said["error"], body
    assert ask("{}", "/nothing")[0] == 404
    process.stdin.write("\n")
    process.communicate(timeout=600)
    assert process.returncode == 0


def test_a_worker_ends_with_who_started_it(tmp_path, table):
    table.write(tmp_path, 100, 1)
    process = subprocess.Popen(
        [sys.executable, EXAMPLE / "worker.py", tmp_path, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert int(process.stdout.readline()) > 0
    process.stdin.close()
    assert process.wait(600) == 0
    process.stdout.close()
