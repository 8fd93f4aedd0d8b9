"""What a cluster has to live through whose processes have nothing but one adapter's transport: objects are imported, an
oracle calls without end, tablets move, a server dies, and at the end everything is there and was done once."""

import json

from oracle import Oracle

OBJECTS = 400
TABLE = "under load"


def write_objects(cluster, table, generation, long_bytes):
    path = cluster.path(f"{table}-{generation}.ndjson")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(OBJECTS):
            value = f"{generation} of {i} " + "x" * (long_bytes if i % 50 == 0 else 10 * (i % 100))
            file.write(json.dumps({"key": f"object {i}", "value": value}) + "\n")
    cluster.rc("import", table, path)


def check_objects(test, cluster, table, generation):
    found = {key: value.split(" x")[0].strip() for key, (value, _) in cluster.export(table).items()}
    test.assertEqual(found, {f"object {i}": f"{generation} of {i}" for i in range(OBJECTS)})


def live_through(test, cluster, long_bytes, seconds_max=120):
    """`long_bytes`: of values that take several packets or buffers."""
    cluster.rc("create", "t")
    write_objects(cluster, "t", 1, long_bytes)
    check_objects(test, cluster, "t", 1)
    with Oracle(cluster, TABLE, tablets=4, rate=400, workers=8, clients=1) as oracle:
        def go_on(count):
            test.assertTrue(oracle.ask("await-more", count, 1000 * seconds_max, seconds_max=seconds_max + 10)["reached"])

        oracle.ask("resume")
        go_on(200)
        for tablet in cluster.tablets(TABLE)[:2]:
            there = "s1" if tablet["server"] != "s1" else "s2"
            moved = cluster.run("rcmigrate", "move", tablet["tablet"], "--to", there, "--quiet")
            test.assertRegex(moved.stdout, r"100 %, \d+ objects")
        go_on(100)
        check_objects(test, cluster, "t", 1)
        write_objects(cluster, "t", 2, long_bytes)

        owner = cluster.tablets(TABLE)[0]["server"]
        cluster.servers[owner].kill()
        cluster.wait_status(lambda now: owner not in [one["name"] for one in now["servers"]]
                            and not now["recoveries"] and now["health"] == "ok", seconds_max)
        go_on(200)
        # Increments among them: what was done twice, or not at all, shows in their answers and in the end.
        verdict = oracle.ask("verify", 1000 * seconds_max, seconds_max=seconds_max + 60)
        test.assertEqual(verdict["violations"], [])
        test.assertGreater(verdict["calls"], 500)
        print(f"{verdict['calls']} calls judged, {verdict['unanswered']} without an answer")
    check_objects(test, cluster, "t", 2)
    write_objects(cluster, "t", 3, long_bytes)
    check_objects(test, cluster, "t", 3)
    del cluster.servers[owner]
