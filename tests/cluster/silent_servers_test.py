#!/usr/bin/env python3
"""Servers that fall silent: who is declared dead, who is waited for, and who goes on as what."""

import signal
import time
import unittest

from cluster_harness import Cluster

LEASE_S = 2
DEATH_AFTER_S = 3


class SilentServersTest(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(servers=4, replicas=2))
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.cluster.rc("create", "t")
        for i in range(20):
            self.cluster.rc("put", "t", f"key{i}", f"value{i}")

    def ids(self):
        return {server["name"]: server["id"] for server in self.cluster.status()["servers"]}

    def test_a_server_that_was_declared_dead_goes_on_as_a_new_one_in_the_same_process(self):
        before = self.ids()
        server = self.cluster.servers["s2"]
        pid = server.process.pid
        server.signal(signal.SIGSTOP)
        self.cluster.coordinator.wait_says("(s2) is declared dead", 10)
        server.signal(signal.SIGCONT)
        server.wait_says("going on as a new server, from nothing")
        after = self.cluster.wait_status(lambda now: now["health"] == "ok" and len(now["servers"]) == 4)
        self.assertTrue(server.is_running())
        self.assertEqual(server.process.pid, pid)
        new = {one["name"]: one["id"] for one in after["servers"]}
        self.assertNotEqual(new["s2"], before["s2"])
        self.assertEqual({name: new[name] for name in ("s1", "s3", "s4")}, {name: before[name] for name in ("s1", "s3", "s4")})
        self.assertEqual(len(self.cluster.export("t")), 20)
        # The server that came back is like all others: it takes tablets, and ends in order.
        tablet = self.cluster.tablets("t")[0]
        if tablet["server"] != "s2":
            self.cluster.run("rcmigrate", "move", tablet["tablet"], "--to", "s2")
        self.assertEqual(len(self.cluster.export("t")), 20)
        self.assertEqual(server.stop(), 0)

    def test_half_of_the_servers_are_waited_for_and_go_on_with_what_they_have(self):
        before = self.ids()
        stopped = [self.cluster.servers[name] for name in ("s1", "s2")]
        for server in stopped:
            server.signal(signal.SIGSTOP)
        self.cluster.coordinator.wait_says("servers are silent together: is this machine cut off?", 10)
        time.sleep(2 * DEATH_AFTER_S)  # it would have come by now
        status = self.cluster.status()
        self.assertEqual(status["health"], "unavailable", status)
        self.assertTrue(any("silent together" in reason for reason in status["reasons"]), status)
        self.assertEqual([one["waits_for"] for one in status["silent"]], ["together", "together"], status)
        for server in stopped:
            server.signal(signal.SIGCONT)
        after = self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.assertEqual({one["name"]: one["id"] for one in after["servers"]}, before)
        self.assertEqual(len(self.cluster.export("t")), 20)
        for server in self.cluster.servers.values():
            self.assertNotIn("declared this server dead", server.log())


if __name__ == "__main__":
    unittest.main()
