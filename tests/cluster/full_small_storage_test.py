#!/usr/bin/env python3
"""Storages that are too small for a restart of all servers: what has to be added is said, in status and log, and is enough."""

import json
import re
import unittest

from cluster_harness import Cluster

OBJECTS = 8000
ADD = re.compile(r"start (\d+) more servers?, each with --storage-bytes (\d+[KMG]iB) or more")


class SmallStorageTest(unittest.TestCase):
    def fill(self, cluster):
        """In the memory of all servers, each object written twice; gives what is to be found."""
        cluster.rc("create", "t", "--tablets", "4")
        for generation in ("old", "new"):
            lines = (json.dumps({"key": f"key{i}", "value": generation * 1000 + str(i)}) for i in range(OBJECTS))
            cluster.rc("import", "t", "--quiet", stdin="\n".join(lines) + "\n")
        objects = cluster.export("t")
        self.assertEqual(len(objects), OBJECTS)
        return objects

    def start_all_again(self, cluster):
        for daemon in [cluster.coordinator, *cluster.servers.values()]:
            daemon.kill()
        cluster.start_coordinator()
        for server in [cluster.start_server(name, wait=False) for name in list(cluster.servers)]:
            server.wait_ready()

    def test_with_twice_the_memory_what_is_said_to_be_missing_is_enough(self):
        with Cluster(servers=4, replicas=3, min_replicas=3, memory="64MiB", storage="128MiB") as cluster:
            cluster.wait_status(lambda now: now["replicas"]["least"] == 3)
            before = self.fill(cluster)
            self.start_all_again(cluster)

            def reason(now):
                return next((match for match in map(ADD.search, now["reasons"]) if match), None)

            status = cluster.wait_status(reason, seconds_max=120)
            self.assertEqual(status["health"], "unavailable", status)
            servers, size = reason(status).groups()
            self.assertFalse(any("one after the other" in line for line in status["reasons"]), "nobody is to be stopped now")
            # The log and `recover` say the same, and do not go on saying it.
            self.assertTrue(any(ADD.search(recovery["text"]) for recovery in status["recoveries"]), status)
            self.assertEqual(max(recovery["missing_servers"] for recovery in status["recoveries"]), int(servers))
            said = [line for line in cluster.coordinator.log().splitlines() if "recoveries wait: " in line]
            self.assertEqual(len(said), 1, said)
            self.assertRegex(said[0], ADD)
            for server in cluster.servers.values():
                full = [line for line in server.log().splitlines() if "does not keep replicas for us: NoSpace" in line]
                self.assertLessEqual(len(full), 3, "of each of the others once a minute")

            cluster.storage = size
            for number in range(int(servers)):
                cluster.start_server(f"s{5 + number}")
            cluster.wait_status(lambda now: not now["recoveries"] and now["health"] != "unavailable", seconds_max=120)
            self.assertEqual(cluster.export("t"), before)
            cluster.wait_status(lambda now: now["replicas"]["least"] == 3)


if __name__ == "__main__":
    unittest.main()
