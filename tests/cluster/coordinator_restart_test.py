#!/usr/bin/env python3
"""The coordinator dies and comes back: servers go on serving meanwhile, and nothing it answered for is forgotten."""

import json
import time
import unittest

from cluster_harness import Cluster, Daemon


class CoordinatorRestartTest(unittest.TestCase):
    def test_restart_while_a_load_runs(self):
        with Cluster(servers=2) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "before", "1")
            before = cluster.tablets("t")
            load = cluster.start("rcbench", "--table", "bench", "--records", 1000, "--workload", "A", "--outstanding", 4,
                                 "--warmup-s", 0, "--duration-s", 60, "--series-s", 0.1, "--json", "--announce", "/dev/stderr")
            try:
                self.assertEqual(load.stderr.readline().strip(), "measuring")
                for _ in range(3):
                    cluster.coordinator.kill()
                    cluster.start_coordinator()
                    cluster.rc("put", "t", "after", "1")
            finally:
                load.terminate()
                output, errors = load.communicate(timeout=60)
            self.assertEqual(load.returncode, 0, errors + output)
            report = json.loads(output)
            self.assertEqual(report["errors"], {})
            self.assertGreater(report["operations"], 100)

            self.assertIn("t", cluster.rc("list").split())
            self.assertEqual(cluster.tablets("t"), before)
            self.assertEqual({key: value for key, (value, _) in cluster.export("t").items()},
                             {"before": "1", "after": "1"})
            self.assertEqual(cluster.stop(), {"s1": 0, "s2": 0, "coordinator": 0})

    def test_ids_are_not_used_again(self):
        with Cluster(servers=1) as cluster:
            seen = set()
            for i in range(3):
                cluster.rc("create", f"table{i}")
                tablets = {tablet["tablet"] for tablet in cluster.tablets(f"table{i}")}
                self.assertFalse(tablets & seen)
                seen |= tablets
                cluster.rc("drop", f"table{i}")
                cluster.coordinator.kill()
                cluster.start_coordinator()

    def test_servers_can_join_after_a_restart(self):
        with Cluster(servers=1) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "v")
            cluster.coordinator.kill()
            cluster.start_coordinator()
            cluster.start_server("s2")
            tablet = cluster.tablets("t")[0]
            cluster.run("rcmigrate", "move", tablet["tablet"], "--to", "s2")
            self.assertEqual(cluster.export("t")["k"][0], "v")
            self.assertEqual(cluster.tablets("t")[0]["server"], "s2")

    def test_status_is_told_while_the_coordinator_waits_for_its_servers(self):
        """For as long as a lease it does not rely on what it has read, unless servers come."""
        with Cluster(servers=2, death_after_ms=60_000) as cluster:
            cluster.rc("create", "t")
            for server in cluster.servers.values():
                server.kill()
            cluster.coordinator.kill()
            cluster.coordinator = Daemon("coordinator", cluster.coordinator_arguments(cluster.coordinator.locators) +
                                         ["--lease-ms", "60000"], cluster.path("coordinator.log"))
            cluster.coordinator.wait_ready()
            status = cluster.status()
            self.assertEqual({server["name"] for server in status["servers"]}, {"s1", "s2"})
            # The coordinator does not answer this yet; the error must not blame the network.
            listed = cluster.run("ramcore", "--timeout-ms", "500", "list", check=False)
            self.assertEqual(listed.returncode, 1)
            self.assertIn("though the coordinator is there", listed.stderr)
            self.assertNotIn("firewall", listed.stderr)

    def test_servers_stop_serving_when_the_coordinator_stays_away(self):
        """A server whose lease has run out may have been replaced: it must not answer any more."""
        with Cluster(servers=1) as cluster:
            cluster.rc("create", "t")
            reader = cluster.start("rcbench", "--table", "t", "--records", 100, "--read-ratio", 1, "--warmup-s", 0,
                                   "--duration-s", 8, "--timeout-ms", 1000, "--series-s", 0.5, "--json", "--announce",
                                   "/dev/stderr")
            self.assertEqual(reader.stderr.readline().strip(), "measuring")
            begin = time.monotonic()
            cluster.coordinator.kill()
            output, _ = reader.communicate(timeout=60)
            elapsed = time.monotonic() - begin
            self.assertGreaterEqual(elapsed, 7)
            report = json.loads(output)
            self.assertGreater(report["series"][0]["operations"], 0, "it serves for the rest of its lease")
            self.assertEqual(report["series"][-1]["operations"], 0, "it served without a lease")
            cluster.start_coordinator()


if __name__ == "__main__":
    unittest.main(verbosity=2)
