#!/usr/bin/env python3
"""`ramcore status` says which transport each session uses, of servers and of the coordinator."""

import json
import re
import unittest

from cluster_harness import Cluster


class SessionsTest(unittest.TestCase):
    def check(self, process, used):
        """What must be so of every process: the parts agree with each other, and only one transport is used."""
        self.assertEqual({name for name, count in process["sessions_by_transport"].items() if count}, {used}, process)
        self.assertEqual(sum(process["sessions_by_transport"].values()), process["sessions"], process)
        for transport, count in process["sessions_by_transport"].items():
            listed = [one for one in process["open_sessions"] if one["transport"] == transport]
            self.assertEqual(len(listed), count, process)
        for session in process["open_sessions"]:
            self.assertIn(session["peer_role"], ("client", "server", "coordinator", "admin"), session)
            self.assertNotEqual(session["peer_address"], "", session)

    def peers(self, process, role):
        return {(one["peer_id"], one["transport"]) for one in process["open_sessions"] if one["peer_role"] == role}

    def cluster_over(self, used):
        """Two servers that copy to each other and listen at one transport."""
        with Cluster(servers=2, replicas=1, transports=(used,)) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            # Each server has sent something to the other for the first time.
            status = cluster.wait_status(lambda now: now["health"] == "ok" and all(
                self.peers(server, "server") for server in now["servers"]))
            ids = {server["id"] for server in status["servers"]}
            for server in status["servers"]:
                self.check(server, used)
                self.assertEqual(server["transports"], list(server["sessions_by_transport"]))
                others = ids - {server["id"]}
                self.assertEqual(self.peers(server, "server"), {(other, used) for other in others}, server)
                self.assertEqual({transport for _, transport in self.peers(server, "coordinator")}, {used}, server)
            coordinator = status["coordinator"]
            self.check(coordinator, used)
            self.assertLessEqual({(one, used) for one in ids}, self.peers(coordinator, "server"))
            self.asked_over(cluster, used)

    def asked_over(self, cluster, scheme):
        text = cluster.rc("status", "--sessions", scheme=scheme)
        self.assertRegex(text, rf"sessions of the coordinator: {scheme} [1-9]")
        self.assertEqual(len(re.findall(rf"serving .* {scheme} [1-9]\d*$", text, re.M)), 2, text)
        lines = re.findall(r"^(coordinator|server \d+) +(\w+) +(\w+) +(\d+) +(\S.*)$", text, re.M)
        self.assertEqual({line[1] for line in lines if line[2] in ("server", "coordinator")}, {scheme}, text)
        self.assertEqual({line[0] for line in lines}, {"coordinator", "server 1", "server 2"}, text)
        # The one who asks is there as well, and is not in the table without the flag.
        self.assertIn(("coordinator", scheme, "admin"), [line[:3] for line in lines], text)
        self.assertNotIn("peer address", cluster.rc("status", scheme=scheme))

    def test_over_tcp(self):
        self.cluster_over("tcp")

    def test_over_shared_memory(self):
        self.cluster_over("shm")

    def test_the_best_way_that_both_have_is_taken(self):
        """Servers listen at tcp first and at shm; whoever asks names the coordinator over tcp alone."""
        with Cluster(servers=2, replicas=1, transports=("tcp", "shm")) as cluster:
            cluster.run("ramcore", "create", "t", scheme="tcp")
            load = cluster.start("rcbench", "--table", "t", "--records", 10, "--warmup-s", 0, "--duration-s", 60,
                                 "--announce", "/dev/stderr", scheme="tcp")
            try:
                self.assertEqual(load.stderr.readline().strip(), "measuring")
                status = cluster.wait_status(lambda now: now["health"] == "ok" and all(
                    self.peers(server, "server") and self.peers(server, "client") for server in now["servers"]))
                for server in status["servers"]:
                    for role in ("server", "client"):
                        self.assertEqual({transport for _, transport in self.peers(server, role)}, {"shm"}, server)
            finally:
                load.terminate()
                load.communicate()

    def test_a_client_is_counted_where_it_came_in_and_only_while_it_is_there(self):
        with Cluster(servers=1, transports=("tcp", "shm")) as cluster:
            cluster.rc("create", "t")
            for scheme in ("tcp", "shm"):
                status = json.loads(cluster.rc("status", "--json", scheme=scheme))
                asking = self.peers(status["coordinator"], "admin")
                self.assertEqual([transport for _, transport in asking], [scheme], status["coordinator"])


if __name__ == "__main__":
    unittest.main()
