#!/usr/bin/env python3
"""Tablets move and split while clients use them: no object is lost, doubled or old afterwards."""

import json
import threading
import unittest

from cluster_harness import Cluster, run, wait_for

OBJECTS = 3000
ROUNDS_MAX = 50


class Writer(threading.Thread):
    """Imports the whole table again and again, each time with the next generation as value, until stopped."""

    def __init__(self, cluster, table):
        super().__init__()
        self.cluster = cluster
        self.table = table
        self.generation = 0  # the last one that was written to its end
        self.stopping = threading.Event()
        self.first_done = threading.Event()
        self.problem = None

    def write(self, generation):
        path = self.cluster.path(f"generation-{generation}.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            for i in range(OBJECTS):
                file.write(json.dumps({"key": f"object {i}", "value": f"{generation} of {i}"}) + "\n")
        self.cluster.rc("import", self.table, path)
        self.generation = generation
        self.first_done.set()

    def run(self):
        try:
            for generation in range(1, ROUNDS_MAX + 1):
                self.write(generation)
                if self.stopping.is_set():
                    return
        except Exception as problem:  # handed to the test, which fails with it
            self.problem = problem
            self.first_done.set()

    def finish(self):
        self.stopping.set()
        self.join(120)
        if self.problem:
            raise self.problem


class MoveUnderLoadTest(unittest.TestCase):
    def check_table(self, cluster, table, generation):
        """Every object once, with the last value; nothing else but the load's own records."""
        objects = {key: value for key, value in cluster.export(table).items() if key.startswith("object ")}
        self.assertEqual({key: value for key, (value, _) in objects.items()},
                         {f"object {i}": f"{generation} of {i}" for i in range(OBJECTS)})
        return {key: version for key, (_, version) in objects.items()}

    def test_moves_and_splits_under_load(self):
        with Cluster(servers=3) as cluster:
            table = "moved"
            cluster.rc("create", table)
            writer = Writer(cluster, table)
            writer.start()
            try:
                self.assertTrue(writer.first_done.wait(120))
                load = cluster.start("rcbench", "--table", table, "--records", 1000, "--workload", "A", "--outstanding",
                                     4, "--warmup-s", 0, "--duration-s", 120, "--json", "--announce", "/dev/stderr")
                try:
                    self.assertEqual(load.stderr.readline().strip(), "measuring")
                    self.move_around(cluster, table)
                finally:
                    load.terminate()
                    output, errors = load.communicate(timeout=60)
            finally:
                writer.finish()
            self.assertEqual(load.returncode, 0, errors + output)
            report = json.loads(output)
            self.assertEqual(report["errors"], {})
            self.assertEqual(report["misses"], 0)
            self.assertGreater(report["operations"], 100)

            before = self.check_table(cluster, table, writer.generation)
            writer.write(writer.generation + 1)
            after = self.check_table(cluster, table, writer.generation)
            for key, version in before.items():
                self.assertGreater(after[key], version, f"the version of {key} went back")
            self.assertEqual(cluster.stop(), {"s1": 0, "s2": 0, "s3": 0, "coordinator": 0})

    def move_around(self, cluster, table):
        """Every tablet goes to the next server, twice, and is cut in between."""
        names = ["s1", "s2", "s3"]
        for _ in range(2):
            for tablet in cluster.tablets(table):
                there = names[(names.index(tablet["server"]) + 1) % len(names)]
                done = cluster.run("rcmigrate", "move", tablet["tablet"], "--to", there, "--quiet")
                self.assertRegex(done.stdout, r"100 %, \d+ objects")
                moved = next(t for t in cluster.tablets(table) if t["first_hash"] == tablet["first_hash"])
                self.assertEqual(moved["server"], there)
                self.assertGreater(moved["epoch"], tablet["epoch"])
            largest = max(cluster.tablets(table), key=lambda tablet: tablet["share"])
            count = len(cluster.tablets(table))
            cluster.run("rcmigrate", "split", "--tablet", largest["tablet"])
            self.assertEqual(len(cluster.tablets(table)), count + 1)

    def test_deleted_objects_stay_deleted(self):
        with Cluster(servers=2) as cluster:
            cluster.rc("create", "t", scheme="shm")
            for i in range(20):
                cluster.rc("put", "t", f"k{i}", "v")
            for i in range(0, 20, 2):
                cluster.rc("delete", "t", f"k{i}")
            for _ in range(2):
                for tablet in cluster.tablets("t"):
                    there = {"s1": "s2", "s2": "s1"}[tablet["server"]]
                    cluster.run("rcmigrate", "move", tablet["tablet"], "--to", there)
                self.assertEqual(set(cluster.export("t")), {f"k{i}" for i in range(1, 20, 2)})

    def test_a_move_without_waiting_can_be_followed(self):
        with Cluster(servers=2) as cluster:
            cluster.rc("create", "t")
            tablet = cluster.tablets("t")[0]
            there = {"s1": "s2", "s2": "s1"}[tablet["server"]]
            done = cluster.run("rcmigrate", "move", tablet["tablet"], "--to", there, "--no-wait")
            migration = int(done.stdout.split("migration ")[1].split()[0])
            for _ in range(1000):  # each turn is a round trip; the move of an empty tablet takes a few
                status = json.loads(cluster.run("rcmigrate", "status", migration, "--json").stdout)
                if status["state"] != "running":
                    break
            self.assertEqual(status["state"], "done", status)
            again = run(cluster.arguments("rcmigrate", "cancel", migration), check=False)
            self.assertNotEqual(again.returncode, 0, "a move that is over cannot be cancelled")

    def test_moves_that_cannot_be(self):
        """Each is refused in one line, with the cause and what to do."""
        with Cluster(servers=3, memory="64MiB", death_after_ms=2000) as cluster:
            for table, server in (("gone", "s1"), ("large", "s1"), ("other", "s2")):
                cluster.rc("create", table, "--tablets", "1")
                cluster.run("rcmigrate", "move", cluster.tablets(table)[0]["tablet"], "--to", server)
            gone = cluster.tablets("gone")[0]["tablet"]
            cluster.rc("drop", "gone")
            large = cluster.tablets("large")[0]["tablet"]
            for table in ("large", "other"):
                lines = "".join(f'{{"key":"{number}","value":"{"x" * 100_000}"}}\n' for number in range(280))
                cluster.rc("import", "--quiet", table, stdin=lines)

            def refused(*arguments):
                done = run(cluster.arguments("rcmigrate", *arguments), check=False)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertEqual(done.stdout + done.stderr.strip().replace("\n", "|"), done.stderr.strip(), "one line")
                return done.stderr

            self.assertRegex(refused("move", gone, "--to", "s2"),
                             rf"there is no tablet {gone} .*'rcmigrate list' shows those that exist")
            self.assertRegex(refused("move", large, "--to", "s2", "--quiet"),
                             r"the destination has no room: the tablet may take \d+ bytes more than is held for it, and \d+ "
                             r"are left; remove objects there, or choose another server")
            self.assertRegex(refused("cancel", 123456), r"migration 123456 is not known; 'rcmigrate status' shows the moves")
            same = cluster.run("rcmigrate", "move", large, "--to", "s1")
            self.assertRegex(same.stdout, r"^tablet \d+ to s1: it is there already$")
            self.assertEqual(len(cluster.export("large")), 280)
            cluster.servers.pop("s3").stop()
            # Until the coordinator has noticed, the move begins; it is given up then.
            wait_for(lambda: refused("move", large, "--to", "s3", "--quiet"),
                     lambda said: "no live server is called 's3'; there are: " in said, 30)


if __name__ == "__main__":
    unittest.main(verbosity=2)
