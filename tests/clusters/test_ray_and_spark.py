"""Ray and PySpark, each with the setting that docs/clusters.md names: the second cluster compiles nothing."""

import json
import shutil
import sys

import pytest
from nbtest import clusters, proc

pytestmark = pytest.mark.long

RAY = """
if __name__ == "__main__":
    import ray
    store, how, forbidden = sys.argv[1], sys.argv[2], sys.argv[3] == "forbidden"
    def switch_on():
        import nbcache
        nbcache.enable(store)
    settings = {
        "variable": {"env_vars": {"NBCACHE_DIR": store}},
        "hook": {"worker_process_setup_hook": switch_on},
    }[how]
    ray.init(num_cpus=2, include_dashboard=False, runtime_env=settings, log_to_driver=False, configure_logging=False)
    task = ray.remote(use)
    first = ray.get(task.remote(FUNCTIONS, forbidden))
    @ray.remote
    class Another:
        def use(self):
            return use(FUNCTIONS, True)
    print(json.dumps([first, ray.get(Another.remote().use.remote())]))
    ray.shutdown()
"""
SPARK = """
if __name__ == "__main__":
    from pyspark.sql import SparkSession
    store, forbidden = sys.argv[1], sys.argv[3] == "forbidden"
    spark = (
        SparkSession.builder.master("local[2]").config("spark.executorEnv.NBCACHE_DIR", store)
        .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.python.worker.reuse", "false").getOrCreate()
    )
    context = spark.sparkContext
    first = context.parallelize([0], 1).map(lambda _each: use(FUNCTIONS, forbidden)).collect()
    # In processes of their own.
    others = context.parallelize([0, 1], 2).map(lambda _each: use(FUNCTIONS, True)).collect()
    print(json.dumps(first + others))
    spark.stop()
"""
EXPECTED = [30.0, 31.0, 7.0]


def check(place, program, how, processes):
    (place / "main.py").write_text(clusters.FUNCTIONS + program)
    (place / "store").mkdir()
    for time in ("first", "forbidden"):
        extra = {"TMPDIR": str(place), "RAY_TMPDIR": str(place), "HOME": str(place), "RAY_USAGE_STATS_ENABLED": "0"}
        extra["PYSPARK_PYTHON"] = sys.executable
        outcome = proc.run([place / "main.py", place / "store", how, time], None, extra, cwd=place)
        assert outcome.status == 0, outcome.stderr
        said = json.loads(outcome.stdout.splitlines()[-1])
        assert [results for results, _, _ in said] == [EXPECTED] * processes
        assert bool(said[0][1]) == (time == "first")
        assert [misses for _, misses, _ in said[1:]] == [{}] * (processes - 1)
        assert all(hits >= len(EXPECTED) for _, _, hits in said[1:])


@pytest.mark.parametrize("how", ["variable", "hook"])
def test_ray(place, how):
    pytest.importorskip("ray", reason="needs the package ray")
    check(place, RAY, how, 2)


def test_spark(place):
    pytest.importorskip("pyspark", reason="needs the package pyspark")
    if shutil.which("java") is None:
        pytest.skip("needs Java (Debian: default-jre-headless)")
    check(place, SPARK, "variable", 3)
