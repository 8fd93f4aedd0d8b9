#!/usr/bin/env python3
"""The way of data through a cluster of real processes: put, get, scan, import, export, over both transports."""

import base64
import json
import os
import pty
import random
import re
import signal
import subprocess
import time
import unittest

from cluster_harness import Cluster, run, tool, wait_for


class EndToEndTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=3)
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)

    def table(self, name):
        self.cluster.rc("create", name)
        self.addCleanup(self.cluster.rc, "drop", name)
        return name

    def write_objects(self, name, objects):
        path = self.cluster.path(name)
        with open(path, "w", encoding="utf-8") as file:
            for key, value in objects.items():
                file.write(json.dumps({"key": key, "value": value}) + "\n")
        return path

    def test_put_get_delete(self):
        table = self.table("single")
        for scheme in ("tcp", "shm"):
            self.cluster.rc("put", table, "greeting", "hello " + scheme, scheme=scheme)
            self.assertEqual(self.cluster.rc("get", table, "greeting", scheme=scheme).strip(), "hello " + scheme)
        self.cluster.rc("delete", table, "greeting")
        self.assertNotEqual(self.cluster.run("ramcore", "get", table, "greeting", check=False).returncode, 0)

    def test_versions_grow_also_over_a_removal(self):
        table = self.table("versions")
        versions = []
        for _ in range(3):
            self.cluster.rc("put", table, "k", "v")
            versions.append(self.cluster.export(table)["k"][1])
            self.cluster.rc("put", table, "k", "w")
            versions.append(self.cluster.export(table)["k"][1])
            self.cluster.rc("delete", table, "k")
        self.assertEqual(versions, sorted(set(versions)))

    def test_increment(self):
        table = self.table("counters")
        for expected in (5, 10, 15):
            self.assertIn(str(expected), self.cluster.rc("increment", table, "c", "5"))

    def test_import_and_export_give_the_same_objects(self):
        table = self.table("bulk")
        draw = random.Random(7)
        objects = {f"key {i}": "".join(draw.choice("aä€𝄞\n\"\\ ") for _ in range(draw.randrange(0, 300)))
                   for i in range(5000)}
        path = self.write_objects("bulk.ndjson", objects)
        for scheme in ("tcp", "shm"):
            self.cluster.rc("import", table, path, scheme=scheme)
            exported = self.cluster.export(table, scheme=scheme)
            self.assertEqual({key: value for key, (value, _) in exported.items()}, objects)

    def test_import_and_export_show_how_far_they_are(self):
        table = self.table("progress")
        path = self.write_objects("progress.ndjson", {f"k{i}": "v" * 100 for i in range(3000)})
        self.assertRegex(self.cluster.run("ramcore", "import", table, path).stderr, r"import 100 % 3000 objects, .*/s")
        self.assertRegex(self.cluster.run("ramcore", "export", table).stderr, r"export 100 % 3000 objects, .*/s")
        # On a terminal: a bar, redrawn; what it shows never goes back.
        terminal, inner = pty.openpty()
        with open("/dev/null", "wb") as nowhere:
            export = subprocess.Popen(self.cluster.arguments("ramcore", "export", table), stdin=subprocess.DEVNULL,
                                      stdout=nowhere, stderr=inner)
        os.close(inner)
        shown = b""
        try:
            while piece := os.read(terminal, 4096):
                shown += piece
        except OSError:  # the other end is closed
            pass
        os.close(terminal)
        self.assertEqual(export.wait(60), 0)
        parts = [int(part) for part in re.findall(rb"\] (\d+) %", shown)]
        self.assertEqual(parts, sorted(parts))
        self.assertEqual(parts[-1], 100)
        self.assertIn(b"[##############################]", shown)

    def test_bytes_that_are_not_utf8(self):
        table = self.table("binary")
        path = self.cluster.path("binary.ndjson")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"key64":"/wD+","value64":"gIGC"}\n{"key":"text","value64":"AAEC/w=="}\n')
        self.cluster.rc("import", table, path)
        exported = self.cluster.export(table)
        self.assertEqual(exported["base64:/wD+"][0], "gIGC")
        self.assertEqual(exported["text"][0], "AAEC/w==")

    def test_an_export_can_be_imported_again(self):
        first, second = self.table("first"), self.table("second")
        path = self.write_objects("first.ndjson", {f"k{i}": f"v{i}" for i in range(1000)})
        self.cluster.rc("import", first, path)
        copy = self.cluster.path("copy.ndjson")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(self.cluster.rc("export", first))
        self.cluster.rc("import", second, copy)
        self.assertEqual({key: value for key, (value, _) in self.cluster.export(first).items()},
                         {key: value for key, (value, _) in self.cluster.export(second).items()})

    def test_scan_shows_every_key_once(self):
        table = self.table("scanned")
        path = self.write_objects("scanned.ndjson", {f"scan-key-{i:04d}": "v" for i in range(500)})
        self.cluster.rc("import", table, path)
        output = self.cluster.rc("scan", table)
        for i in range(500):
            self.assertEqual(output.count(f"scan-key-{i:04d}"), 1)

    def test_tables_are_spread_over_the_servers(self):
        table = self.table("spread")
        self.assertEqual({tablet["server"] for tablet in self.cluster.tablets(table)}, {"s1", "s2", "s3"})

    def test_list_and_status(self):
        table = self.table("listed")
        self.assertIn(table, self.cluster.rc("list"))
        self.cluster.rc("create", table + "-sync", "--durability", "sync")
        levels = {line.split()[2]: line.split()[1] for line in self.cluster.rc("list").splitlines()}
        self.assertEqual((levels[table], levels[table + "-sync"]), ("buffered", "sync"))
        tables = {one["name"]: one for one in json.loads(self.cluster.rc("status", "--json"))["tables"]}
        self.assertEqual(tables[table + "-sync"]["durability"], "sync")
        self.cluster.rc("put", table + "-sync", "key", "value")
        self.assertEqual(self.cluster.rc("get", table + "-sync", "key").strip(), "value")
        self.cluster.rc("drop", table + "-sync")
        text = self.cluster.rc("status")
        for name in ("s1", "s2", "s3"):
            self.assertIn(name, text)
        status = json.loads(self.cluster.rc("status", "--json"))
        self.assertEqual(len(status["servers"]), 3)
        self.assertIn("survives 0 more deaths", text)  # servers of this test keep no replicas
        self.assertEqual((status["health"], status["survivable_deaths"], status["recoveries"]), ("ok", 0, []))
        self.assertEqual(status["replicas"], {"wanted": 0, "least": 0})
        for server in status["servers"]:
            self.assertEqual((server["replicas_wanted"], server["frames_total"]), (0, 0), server)
            self.assertTrue(server["answers"], server)
            self.assertGreater(server["requests"], 0, server)
            self.assertGreater(server["uptime_s"], 0, server)
            self.assertGreater(server["sessions"], 0, server)

    def test_a_signal_lists_what_is_in_service(self):
        for daemon in (self.cluster.coordinator, self.cluster.servers["s1"]):
            daemon.signal(signal.SIGUSR1)
            daemon.wait_says("requests in service")
            self.assertTrue(daemon.is_running())

    def test_dropped_tables_are_gone(self):
        self.cluster.rc("create", "dropped")
        self.cluster.rc("put", "dropped", "k", "v")
        self.cluster.rc("drop", "dropped")
        self.assertNotEqual(self.cluster.run("ramcore", "get", "dropped", "k", check=False).returncode, 0)
        self.cluster.rc("create", "dropped")
        self.assertEqual(self.cluster.export("dropped"), {})
        self.cluster.rc("drop", "dropped")

    def test_rcbench_reports_what_it_did(self):
        for extra in (["--workload", "A"], ["--workload", "D"], ["--workload", "E"], ["--workload", "F"],
                      ["--read-ratio", "1", "--batch", "16"], ["--rate", "500"]):
            done = self.cluster.run("rcbench", "--table", "bench", "--records", 2000, "--duration-s", 0.3, "--warmup-s", 0.1,
                                    "--outstanding", 4, "--series-s", 0.1, "--json", "--drop", *extra)
            report = json.loads(done.stdout)
            self.assertEqual(report["errors"], {}, extra)
            self.assertEqual(report["misses"], 0, extra)
            self.assertGreater(report["operations"], 20, extra)
            self.assertLessEqual(report["latency_us"]["p50"], report["latency_us"]["p99.99"], extra)
            self.assertGreaterEqual(len(report["series"]), 2, extra)
        self.assertNotIn("bench", self.cluster.rc("list").split())

    def test_rcbench_draws_the_lengths_of_values(self):
        mix = ["--table", "mix", "--value-mix", "10:3,500-600:1"]
        self.cluster.run("rcbench", *mix, "--records", 200, "--load-only")
        lengths = [len(value) for value, _ in self.cluster.export("mix").values()]
        self.assertEqual(len(lengths), 200)
        self.assertTrue(all(length == 10 or 500 <= length <= 600 for length in lengths), lengths)
        self.assertTrue(100 < lengths.count(10) < 190, lengths)
        done = self.cluster.run("rcbench", *mix, "--value-mix-later", "21:1", "--records", 20, "--read-ratio", 0,
                                "--distribution", "uniform", "--duration-s", 1, "--warmup-s", 0, "--json")
        self.assertEqual(json.loads(done.stdout)["value_mix_later"], "21:1")
        # All of the first records were written in the second half, too. Values begin with eight random bytes: most are
        # exported as base64, and those that happen to be text as they are.
        items = [json.loads(line) for line in self.cluster.rc("export", "mix").splitlines()]
        lengths = [len(item["value"].encode()) if "value" in item else len(base64.b64decode(item["value64"]))
                   for item in items if int(item["key"][1:]) < 20]
        self.assertEqual(lengths, [21] * 20)
        self.cluster.rc("drop", "mix")
        wrong = self.cluster.run("rcbench", "--value-mix", "9-3:1", check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("FIRST-LAST:SHARE", wrong.stderr)

    def test_an_open_loop_sees_a_stall_in_every_operation_that_was_due(self):
        load = self.cluster.start("rcbench", "--table", "stalled", "--records", 1000, "--rate", 1000, "--warmup-s", 0,
                                  "--duration-s", 2, "--json", "--drop", "--announce", "/dev/stderr")
        self.assertEqual(load.stderr.readline().strip(), "measuring")
        servers = self.cluster.servers.values()
        for server in servers:
            server.signal(signal.SIGSTOP)
        try:  # ends by its timeout: that is how long the stall is
            self.cluster.run("ramcore", "--timeout-ms", 500, "get", "stalled", "k", check=False)
        finally:
            for server in servers:
                server.signal(signal.SIGCONT)
        output, errors = load.communicate(timeout=60)
        self.assertEqual(load.returncode, 0, errors)
        report = json.loads(output)
        # A quarter of all operations was due during the stall. Had the loop only waited, one in a thousand would show it.
        self.assertGreater(report["latency_us"]["p90"], 100_000)
        self.assertLess(report["latency_us"]["p50"], 100_000)
        self.assertGreater(report["operations"], 1800)

    def stalled_at_the_end(self, *more):
        """An open loop of 1500 operations in 1.5 s whose servers stand still from the beginning until after its end."""
        load = self.cluster.start("rcbench", "--table", "stalled-end", "--records", 100, "--rate", 1000, "--warmup-s", 0,
                                  "--duration-s", 1.5, "--json", "--announce", "/dev/stderr", *more)
        self.assertEqual(load.stderr.readline().strip(), "measuring")
        servers = self.cluster.servers.values()
        for server in servers:
            server.signal(signal.SIGSTOP)
        try:  # ends by its timeout: that is how long the stall is
            self.cluster.run("ramcore", "--timeout-ms", 2500, "get", "stalled-end", "k", check=False)
        finally:
            for server in servers:
                server.signal(signal.SIGCONT)
        output, errors = load.communicate(timeout=60)
        self.cluster.rc("drop", "stalled-end")
        return load.returncode, json.loads(output), errors

    def test_an_open_loop_sees_a_stall_that_spans_its_end(self):
        code, report, errors = self.stalled_at_the_end()
        self.assertEqual(code, 0, errors)
        self.assertEqual(report["due"], 1500)
        self.assertEqual(report["operations"], 1500)  # nothing that was due is left out
        self.assertGreater(report["latency_us"]["p90"], 500_000)

    def test_what_an_open_loop_could_not_begin_has_failed(self):
        code, report, errors = self.stalled_at_the_end("--timeout-ms", 300)
        self.assertEqual(code, 3, errors)
        self.assertEqual(report["due"], 1500)
        self.assertEqual(report["operations"] + sum(report["errors"].values()), 1500)
        self.assertGreater(sum(report["errors"].values()), 1000)

    def test_an_open_loop_ends_after_so_many_operations(self):
        done = self.cluster.run("rcbench", "--table", "counted", "--records", 100, "--rate", 1000, "--warmup-s", 0.1,
                                "--duration-s", 20, "--operations", 300, "--drop")
        self.assertIn("due 300, done 300", done.stdout)

    def test_an_open_loop_can_be_interrupted(self):
        load = self.cluster.start("rcbench", "--table", "slow", "--records", 100, "--rate", 1, "--warmup-s", 0,
                                  "--duration-s", 600, "--drop", "--announce", "/dev/stderr")
        self.assertEqual(load.stderr.readline().strip(), "measuring")
        load.terminate()
        output, errors = load.communicate(timeout=30)
        self.assertEqual(load.returncode, 0, errors)
        self.assertRegex(output, r"due (\d+), done \1\b")

    def test_a_rate_that_nobody_reaches_ends_in_time(self):
        # Each operation may take ten minutes; but that most of them never begin shows at once.
        done = self.cluster.run("rcbench", "--table", "hopeless", "--records", 100, "--rate", 1e9, "--warmup-s", 0,
                                "--duration-s", 0.5, "--timeout-ms", 600_000, "--json", "--drop", check=False, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["due"], 500_000_000)
        self.assertEqual(report["operations"] + sum(report["errors"].values()), 500_000_000)
        self.assertGreater(report["operations"], 1000)

    def interrupted_over_silent_servers(self, has_begun, *arguments):
        """An rcbench whose operations may take ten minutes, and get no answer when it is told to end."""
        load = self.cluster.start("rcbench", "--timeout-ms", 600_000, "--json", *arguments)
        has_begun(load)
        servers = self.cluster.servers.values()
        for server in servers:
            server.signal(signal.SIGSTOP)
        try:
            load.terminate()
            output, errors = load.communicate(timeout=30)  # as long as servers stand still
        finally:
            for server in servers:
                server.signal(signal.SIGCONT)
        return load.returncode, output, errors

    def test_an_interruption_does_not_wait_for_answers(self):
        for loop in ([], ["--rate", "5000"]):
            with self.subTest(loop=loop):
                code, output, errors = self.interrupted_over_silent_servers(
                    lambda load: load.stderr.readline(), "--table", "silent", "--warmup-s", 0, "--duration-s", 600, "--announce", "/dev/stderr", *loop)
                self.assertIn(code, (0, 3), errors)
                self.assertIn("operations", json.loads(output))  # what was measured

    def test_an_interruption_of_the_load_does_not_wait_for_answers(self):
        code, output, errors = self.interrupted_over_silent_servers(
            lambda load: wait_for(lambda: self.cluster.rc("list"), lambda tables: "silent-load" in tables),
            "--table", "silent-load", "--value-bytes", 100_000, "--records", 100_000_000)
        # The signal may have come before rcbench knew the table; then there is nothing to report.
        self.assertIn(code, (0, 1), errors)
        self.assertTrue(output or errors)
        self.cluster.rc("drop", "silent-load")

    def test_rcbench_knows_how_popular_each_of_very_many_records_is(self):
        # Adding up the popularities one by one would take hours.
        self.cluster.run("rcbench", "--table", "huge", "--records", 10, "--load-only")
        done = self.cluster.run("rcbench", "--table", "huge", "--records", 100_000_000_000, "--no-load", "--duration-s", 0.2,
                                "--warmup-s", 0, "--workload", "C", "--drop", timeout=30)
        self.assertIn("errors: none", done.stdout)

    def test_rcbench_prints_csv_and_tables(self):
        common = ["--table", "bench2", "--records", 500, "--duration-s", 0.2, "--warmup-s", 0, "--connections", 2]
        lines = self.cluster.run("rcbench", *common, "--csv").stdout.splitlines()
        self.assertEqual(len({line.count(",") for line in lines}), 1)
        self.assertIn("p99.99_us", lines[0])
        self.assertIn("errors: none", self.cluster.run("rcbench", *common, "--no-load", "--drop").stdout)


class StopTest(unittest.TestCase):
    def test_sigterm_stops_everything_in_order(self):
        with Cluster(servers=2) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "v")
            self.assertEqual(cluster.stop(), {"s1": 0, "s2": 0, "coordinator": 0})
            for name in ("coordinator.sock", "s1.sock", "s2.sock"):
                self.assertFalse(os.path.exists(cluster.path(name)), f"{name} was left behind")

    def test_a_server_says_that_nothing_survives_it(self):
        with Cluster(servers=1) as cluster:
            with open(cluster.path("s1.log"), encoding="utf-8") as file:
                self.assertIn("survives", file.read())

    def test_a_secret_is_enough_and_needed(self):
        with Cluster(servers=1, name="secured", secret="a secret of the cluster") as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "v")
            without = run([tool("ramcore"), "--coordinator", cluster.coordinator_locator(), "--cluster", "secured",
                           "get", "t", "k"], check=False)
            self.assertNotEqual(without.returncode, 0)
            self.assertNotIn("v", without.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
