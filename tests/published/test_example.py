"""The example service, end to end: its one command, its answers, and what it takes for a query."""

import importlib.util
import json
import re
import subprocess
import sys
from contextlib import closing, contextmanager
from http.client import HTTPConnection

import numpy as np
import pytest
from nbtest import ports, proc

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
    assert published["sums"] == compiled["sums"] and len(published["sums"]) == 1 + 3
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


@pytest.mark.long
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
    assert [line[:44].strip() for line in lines[3:]] == [
        "new query to its first answer",
        "processor time of that, all processes",
        "that of the very first query",
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


@contextmanager
def stays(*command):
    """Start what ends by a signal or when its input ends; give the process, and what asks it."""
    process = subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(re.search(r"(\d+)/? ?(until|$)", process.stdout.readline().strip())[1])

    def ask(path, body=None, **headers):
        with closing(HTTPConnection("127.0.0.1", port, timeout=600)) as line:
            line.request("GET" if body is None else "POST", path, body, headers)
            answer = line.getresponse()
            kind, data = answer.headers["Content-Type"], answer.read()
            said = json.loads(data, parse_constant=pytest.fail) if kind == "application/json" else data.decode()
            return answer.status, said

    try:
        yield process, ask
    finally:
        process.terminate()
        process.communicate(timeout=600)


@pytest.fixture(scope="module")
def ask():
    options = ["--stay", "--rows", "1000", "--partitions", "2", "--workers", "2"]
    with stays(EXAMPLE, *options) as (process, ask):
        process.stdin.close()  # it stays up without a terminal
        process.stdin = None
        yield ask
        assert ask("/health")[0] == 200
    assert process.returncode == 0


def test_an_answer_has_the_sum_and_that_of_each_period(ask, table):
    status, said = ask("/query", '{"expression": "price - price + 2"}')
    assert status == 200 and said["sum"] == 2000.0 and said["rows"] == 1000 and said["seconds"] > 0
    assert len(said["sums"]) == table.PERIODS and sum(said["sums"]) == 2000.0
    assert said["new"] and not ask("/query", '{"expression": "price - (price) + 2"}')[1]["new"]
    assert ask("/query", '{"expression": "2 ** 70 + 0 * price"}')[1]["sum"] == 1000 * 2.0**70
    assert ask("/query", '{"expression": "price > 0"}')[1]["sum"] == 1000.0


@pytest.mark.parametrize("expression", ["log(price - price - 1)", "1 / (tax - tax)", "-1 / (tax - tax)"])
def test_what_is_no_finite_number_is_null(ask, table, expression):
    status, said = ask("/query", json.dumps({"expression": expression}))
    assert status == 200 and said["sum"] is None and said["sums"] == [None] * table.PERIODS


def test_only_periods_without_a_finite_number_are_null(ask):
    sums = ask("/query", '{"expression": "sqrt(100 - day)"}')[1]["sums"]
    assert sums[0] > 0 and set(sums[2:]) == {None}


@pytest.mark.parametrize(
    "body",
    [
        '{"expression": "price +"}',
        '{"expression": "sqrt(price, tax)"}',
        '{"expression": 5}',
        '{"expression": "price * 1e999"}',
        json.dumps({"expression": "-" * 1900 + "price"}),
        json.dumps({"expression": "price\n+\n"}),
        "{}",
        "[1]",
        "{",
        "[" * 60_000,
    ],
    ids=lambda body: body[:30],
)
def test_a_bad_query_has_status_400_and_one_line(ask, body):
    status, said = ask("/query", body)
    assert status == 400 and set(said) == {"error"} and said["error"] and "\n" not in said["error"]


@pytest.mark.parametrize("length", ["70000", "-1", "many"])
def test_a_request_that_is_too_long_or_has_no_length_has_status_400(ask, length):
    assert ask("/query", "", **{"Content-Length": length})[0] == 400


def test_the_service_says_how_it_is(ask):
    assert ask("/query", '{"expression": "price * 3"}')[0] == 200
    assert ask("/health") == (200, {"healthy": True, "workers": 2})
    status, said = ask("/status")
    assert status == 200 and said["answered"] > 0 and said["queries_a_second"] > 0 and said["first_answer"] > 0
    assert said["queries"][0]["expression"] == "price * 3" and said["queries"][0]["first"] > 0
    accumulator, *workers = said["processes"]
    assert accumulator["numba"] and len(workers) == 2 and not any(each["numba"] for each in workers)
    assert all(each["answers"] and each["memory"] > 0 and each["processor"] > 0 for each in said["processes"])
    assert ask("/nothing", "{}")[0] == ask("/nothing")[0] == 404


def test_the_page_needs_nothing_from_elsewhere_and_has_what_its_script_names(ask):
    status, page = ask("/")
    assert status == 200 and page == ask("/index.html")[1]
    files = {name: ask(f"/{name}") for name in re.findall(r'(?:src|href)="(?!data:)([^"]*)"', page)}
    assert set(files) == {"style.css", "page.js"} and all(status == 200 for status, _ in files.values())
    script = files["page.js"][1]
    assert "//" not in (page + files["style.css"][1]).replace("//www.w3.org/2000/svg", "")
    assert set(re.findall(r'(?:at|fill)\("(\w+)"', script)) <= set(re.findall(r'id="(\w+)"', page))


def test_a_service_whose_workers_are_gone_says_so_and_stays():
    with stays(EXAMPLE / "accumulator.py", str(ports.free()), "--leave-it-to-workers") as (_, ask):
        status, said = ask("/health")
        assert status == 503 and said["error"].startswith("of 1 workers, nobody answers at port ")
        assert [each["answers"] for each in ask("/status")[1]["processes"]] == [True, False]
        for _ in range(2):
            status, said = ask("/query", '{"expression": "price"}')
            assert status == 503 and said["error"].startswith("nobody answers at port ")


def test_figures_take_the_same_memory_however_long_it_runs():
    figures = part("figures")
    kept = figures.Figures()
    for number in range(3 * figures.QUERIES):
        kept.add(f"price * {number}", 0.5, new=True)
        kept.add(f"price * {number}", 0.1, new=False)
    shown = kept.show()
    assert shown["answered"] == 6 * figures.QUERIES and len(shown["queries"]) == figures.QUERIES
    assert (shown["first_answer"], shown["later_answer"]) == (0.5, 0.1)
    newest = {"expression": f"price * {3 * figures.QUERIES - 1}", "answered": 2, "first": 0.5, "latest": 0.1}
    assert shown["queries"][0] == newest
    assert shown["queries_a_second"] == 6 * figures.QUERIES / figures.SECONDS


def test_a_worker_ends_with_who_started_it(tmp_path, table):
    table.write(tmp_path, 100, 1)
    process = subprocess.Popen(
        [sys.executable, EXAMPLE / "worker.py", tmp_path, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert int(process.stdout.readline()) > 0
    process.stdin.close()
    assert process.wait(600) == 0
    process.stdout.close()
