#!/usr/bin/env python3
"""`ramcore status` says how many deaths a cluster would survive, before, during and after one."""

import json
import unittest

from cluster_harness import Cluster


class HealthTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(servers=3, replicas=2))

    def expect(self, status, health, least, deaths):
        self.assertEqual(status["health"], health, status)
        self.assertEqual(status["replicas"], {"wanted": 2, "least": least}, status)
        self.assertEqual(status["survivable_deaths"], deaths, status)
        self.assertEqual(status["health"] == "ok", not status["reasons"], status)

    def test_a_death_shows_until_another_server_has_the_copies(self):
        # A server takes tablets when it has copies of its log.
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.cluster.rc("create", "t")
        for i in range(10):
            self.cluster.rc("put", "t", f"key{i}", "value")
        status = self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.expect(status, "ok", 2, 1)
        for server in status["servers"]:
            self.assertEqual((server["replicas_wanted"], server["replicas_least"]), (2, 2), server)
            self.assertEqual(server["frames_total"], 63, server)
            self.assertLess(server["frames_free"], 63, server)

        self.assertIn("s3", [tablet["server"] for tablet in self.cluster.tablets("t")])
        self.cluster.servers["s3"].kill()
        status = self.cluster.wait_status(lambda now: now["health"] == "unavailable")
        self.assertTrue(any("tablet" in reason and "s3" in reason for reason in status["reasons"]), status)
        # Two servers are too few for the recovery: each has one other to copy to, and two are wanted at least.
        # So nobody could take its place, and it is not declared dead: it might come back with all that it has.
        status = self.cluster.wait_status(lambda now: [one["waits_for"] for one in now["silent"]] == ["replacers"])
        self.assertEqual(status["recoveries"], [], status)
        self.assertTrue(any("s3" in reason and "nobody could take its place" in reason for reason in status["reasons"]), status)
        text = self.cluster.rc("status")
        self.assertIn("health: unavailable", text)
        self.assertIn("survives 0 more deaths", text)
        self.assertIn("nobody could take its place", text)

        self.cluster.start_server("s4")
        status = self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.expect(status, "ok", 2, 1)
        self.assertEqual(sorted(server["name"] for server in status["servers"]), ["s1", "s2", "s4"])
        self.assertEqual(status["recoveries"], [])
        self.assertEqual(len(self.cluster.export("t")), 10)


class TooFewServersTest(unittest.TestCase):
    """What somebody sees who starts one server and no more."""

    def test_the_reason_is_named_wherever_one_looks(self):
        with Cluster(servers=0, replicas=3) as cluster:
            nobody = json.loads(cluster.rc("status", "--json"))
            self.assertEqual((nobody["health"], nobody["reasons"]), ("unavailable", ["no server lives"]))

            server = cluster.start_server("s1")
            server.wait_says("writes are refused while 0 other servers live that keep copies, and --min-replicas asks for 2")
            status = json.loads(cluster.rc("status", "--json"))
            self.assertEqual(status["health"], "degraded")
            self.assertTrue(any("(s1) takes no writes" in reason for reason in status["reasons"]), status)
            self.assertEqual([one["takes_writes"] for one in status["servers"]], [False])
            made = cluster.run("ramcore", "--timeout-ms", "1000", "create", "early", check=False)
            self.assertEqual(made.returncode, 1, made)
            self.assertEqual(made.stderr.count("\n"), 1, made)
            self.assertIn("start servers, or one alone with --local-replica", made.stderr)

            for name in ("s2", "s3"):
                cluster.start_server(name)
            server.wait_says("writes are taken")
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            status = json.loads(cluster.rc("status", "--json"))
            self.assertEqual([one["takes_writes"] for one in status["servers"]], [True] * 3)
            cluster.servers["s3"].kill()
            cluster.wait_status(lambda now: any("nobody could take its place" in reason for reason in now["reasons"]), 20)
            # One other is left for copies, and two are wanted: nothing is acknowledged.
            refused = cluster.run("ramcore", "--timeout-ms", "3000", "put", "t", "key", "value", check=False)
            self.assertEqual(refused.returncode, 1, refused)


if __name__ == "__main__":
    unittest.main()
