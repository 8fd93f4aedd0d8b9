#!/usr/bin/env python3
"""Storages that are too small for a restart of all servers: `ramcore status` says so while all is well, everything comes
back where it can, and where it cannot, what has to be added is said, and is enough."""

import json
import re
import unittest

from cluster_harness import Cluster

MIB = 1 << 20


class SmallStorageTest(unittest.TestCase):
    OBJECTS = 400

    def fill(self, cluster):
        """In the memory of all servers, overwritten; gives what is to be found."""
        cluster.rc("create", "t", "--tablets", "4")
        for generation in ("old", "new"):
            lines = (json.dumps({"key": f"key{i}", "value": generation * 200 + str(i)}) for i in range(self.OBJECTS))
            cluster.rc("import", "t", "--quiet", stdin="\n".join(lines) + "\n")
        objects = cluster.export("t")
        self.assertEqual(len(objects), self.OBJECTS)
        return objects

    def start_all_again(self, cluster):
        for daemon in [cluster.coordinator, *cluster.servers.values()]:
            daemon.kill()
        cluster.start_coordinator()
        for server in [cluster.start_server(name, wait=False) for name in list(cluster.servers)]:
            server.wait_ready()

    def test_status_names_the_storage_that_is_needed_and_with_it_is_ok(self):
        with Cluster(servers=4, replicas=3, memory="64MiB", storage="128MiB") as cluster:
            status = cluster.wait_status(lambda now: now["replicas"]["least"] == 3)
            self.assertEqual(status["health"], "degraded", status)
            reason = next(reason for reason in status["reasons"] if "storages of all servers" in reason)
            needed = int(re.search(r"on a new --storage with --storage-bytes (\d+)MiB", reason)[1])
            self.assertGreater(needed, 256)
            for server in status["servers"]:
                self.assertLess(server["storage_bytes"], server["storage_bytes_needed"])
                self.assertLessEqual(server["storage_bytes_needed"], needed * MIB)
        with Cluster(servers=4, replicas=3, memory="64MiB", storage=f"{needed}MiB") as cluster:
            cluster.wait_status(lambda now: now["health"] == "ok")

    def test_without_the_flag_there_is_as_much_as_is_needed(self):
        with Cluster(servers=2, replicas=1, memory="64MiB", storage=None) as cluster:
            status = cluster.wait_status(lambda now: now["health"] == "ok")
            for server in status["servers"]:
                self.assertGreaterEqual(server["storage_bytes"], server["storage_bytes_needed"])

    def test_twice_the_memory_comes_back_by_itself(self):
        with Cluster(servers=4, replicas=3, memory="64MiB", storage="128MiB") as cluster:
            cluster.wait_status(lambda now: now["replicas"]["least"] == 3)
            before = self.fill(cluster)
            self.start_all_again(cluster)
            cluster.wait_status(lambda now: not now["recoveries"] and now["health"] != "unavailable")
            self.assertEqual(cluster.export("t"), before)

    def test_what_is_said_to_be_missing_is_enough(self):
        with Cluster(servers=4, replicas=3, memory="64MiB", storage="72MiB") as cluster:
            cluster.wait_status(lambda now: now["replicas"]["least"] == 3)
            before = self.fill(cluster)
            self.start_all_again(cluster)

            def said(now):
                found = [re.search(r"as many servers as --min-replicas says, each with --storage-bytes (\d+)MiB", one["text"])
                         for one in now["recoveries"]]
                return [int(match[1]) for match in found if match]

            status = cluster.wait_status(said)
            self.assertEqual(status["health"], "unavailable", status)
            cluster.storage = f"{max(said(status))}MiB"
            for name in ("s5", "s6"):
                cluster.start_server(name)
            cluster.wait_status(lambda now: not now["recoveries"] and now["health"] != "unavailable")
            self.assertEqual(cluster.export("t"), before)


if __name__ == "__main__":
    unittest.main()
