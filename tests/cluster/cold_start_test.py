#!/usr/bin/env python3
"""What comes back by itself, and when: after the death of everybody, without one of the directories; of a server alone
that keeps its own copy; and of one that says goodbye."""

import json
import shutil
import time
import unittest

from cluster_harness import Cluster


class Comeback(unittest.TestCase):
    TABLES = {"buffered": [], "sync": ["--durability", "sync"]}

    def fill(self, cluster, tablets):
        """Objects that were written, overwritten, removed and counted; gives what is to be found."""
        for table, flags in self.TABLES.items():
            cluster.rc("create", table, "--tablets", str(tablets), *flags)
            for generation in ("old", "new"):
                lines = (json.dumps({"key": f"key{i}", "value": f"{generation}{i}"}) for i in range(200))
                cluster.rc("import", table, "--quiet", stdin="\n".join(lines) + "\n")
            cluster.rc("delete", table, "key7")
            for _ in range(3):
                cluster.rc("increment", table, "counter")
        return self.contents(cluster)

    def contents(self, cluster):
        contents = {table: cluster.export(table) for table in self.TABLES}
        for objects in contents.values():
            self.assertEqual(len(objects), 200)
            self.assertNotIn("key7", objects)
            self.assertEqual(objects["key8"][0], "new8")
        return contents


class ColdStartTest(Comeback):
    @staticmethod
    def missed_for(status, name):
        """The servers that the recovery of that one waits for."""
        names = {server["id"]: server["name"] for server in status["servers"]}
        return sorted(names.get(away, away) for one in status["recoveries"] if one["name"] == name
                      for away in one["servers_away"])

    def test_everything_is_back_after_a_start_in_any_order_without_one_directory(self):
        with Cluster(servers=4, replicas=3) as cluster:
            cluster.wait_status(lambda now: now["health"] == "ok")
            before = self.fill(cluster, 8)
            for daemon in [cluster.coordinator, *cluster.servers.values()]:
                daemon.kill()
            shutil.rmtree(cluster.path("s1"))

            first = cluster.start_server("s3", wait=False)
            first.wait_says("cannot enlist")
            cluster.start_coordinator()
            first.wait_ready()
            # s1, s2 and s4 may have what s3 has not. No call is answered from incomplete data meanwhile.
            status = cluster.wait_status(lambda now: self.missed_for(now, "s3") == ["s1", "s2", "s4"])
            self.assertEqual(status["health"], "unavailable")
            self.assertTrue(all(one["tablets_left"] for one in status["recoveries"]), status)
            read = cluster.run("ramcore", "--timeout-ms", "500", "get", "buffered", "key8", check=False)
            self.assertEqual((read.returncode, read.stdout), (1, ""), read)
            self.assertRegex(cluster.rc("status"), r"recovery of server \d+ \(s3\): .*servers away: (\d+ \(s[124]\)(, )?){3}\n")

            for name in ("s4", "s2"):
                cluster.start_server(name)
            cluster.wait_status(lambda now: not now["recoveries"] and now["health"] != "unavailable")
            self.assertEqual(self.contents(cluster), before)
            # An empty directory takes the place of the one that is gone.
            cluster.start_server("s1")
            status = cluster.wait_status(lambda now: now["health"] == "ok")
            self.assertEqual((status["replicas"]["least"], status["survivable_deaths"]), (3, 2))
            self.assertEqual(self.contents(cluster), before)


class LocalReplicaTest(Comeback):
    def test_one_server_alone_survives_its_death_and_that_of_the_coordinator(self):
        flags = ["--local-replica"]
        with Cluster(servers=0, replicas=3) as cluster:
            cluster.start_server("s1", extra=flags)
            status = cluster.wait_status(lambda now: now["health"] == "ok")
            self.assertEqual((status["replicas"], status["survivable_deaths"]), ({"wanted": 1, "least": 1}, 0))
            before = self.fill(cluster, 2)
            for kills_coordinator in (False, True):
                cluster.servers["s1"].kill()
                if kills_coordinator:
                    cluster.coordinator.kill()
                    cluster.start_coordinator()
                cluster.start_server("s1", extra=flags)
                cluster.wait_status(lambda now: now["health"] == "ok")
                self.assertEqual(self.contents(cluster), before)


class GoodbyeTest(Comeback):
    def test_a_server_that_is_stopped_is_recovered_at_once(self):
        silence_s = 120  # after which it would be declared dead
        with Cluster(servers=4, replicas=2, death_after_ms=silence_s * 1000) as cluster:
            cluster.wait_status(lambda now: now["health"] == "ok")
            before = self.fill(cluster, 8)
            self.assertIn("s2", {tablet["server"] for tablet in cluster.tablets("buffered")})
            begin = time.monotonic()
            self.assertEqual(cluster.servers["s2"].stop(), 0)
            cluster.wait_status(lambda now: not now["recoveries"] and now["health"] == "ok")
            self.assertLess(time.monotonic() - begin, silence_s / 4)
            self.assertNotIn("s2", {tablet["server"] for tablet in cluster.tablets("buffered")})
            self.assertEqual(self.contents(cluster), before)


if __name__ == "__main__":
    unittest.main()
