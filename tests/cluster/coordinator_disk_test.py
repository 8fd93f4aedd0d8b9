#!/usr/bin/env python3
"""What the coordinator keeps on its disk: who may read it, and what happens when the disk is full."""

import os
import re
import stat
import subprocess
import time
import unittest

from cluster_harness import Cluster, signal, wait_for
from metrics_endpoint import free_port, scrape

FULL = "the disk of the coordinator's storage is full"


def mount_prefix():
    """Runs a command where it may mount something of its own."""
    for flags in (["-m"], ["-rm"]):
        if subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False).returncode == 0:
            return ["unshare", *flags]
    return None


class SmallDisk(Cluster):
    """Its coordinator has a disk of its own, of some hundred kilobytes."""

    def __init__(self, **options):
        super().__init__(autostart=False, coordinator_in_memory=False, **options)
        self.metrics = free_port()
        os.mkdir(self.path("coordinator"))

    def process_prefix(self, name):
        if name != "coordinator":
            return []
        return mount_prefix() + ["sh", "-c", f'mount -t tmpfs -o size=400k none {self.path("coordinator")} && exec "$@"', "sh"]

    def process_flags(self, name):
        return ["--metrics", f"127.0.0.1:{self.metrics}"] if name == "coordinator" else []

    def filler(self):
        """A file on that disk, seen from here."""
        return f"/proc/{self.coordinator.process.pid}/root{self.path('coordinator')}/filler"

    def fill(self):
        with open(self.filler(), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 1024)
            except OSError:
                pass

    def is_full_by_metrics(self):
        return scrape(self.metrics)[0]["ramcore_coordinator_storage_full"]


@unittest.skipIf(mount_prefix() is None, "this user may mount nothing")
class FullDiskTest(unittest.TestCase):
    def test_a_full_disk_is_told_everywhere_and_passes_by_itself(self):
        with SmallDisk() as cluster:
            cluster.start_coordinator()
            cluster.start_server("s1")
            cluster.rc("create", "before")
            cluster.rc("put", "before", "k", "v")
            self.assertEqual(cluster.status()["health"], "ok")
            self.assertEqual(cluster.is_full_by_metrics(), 0)
            cluster.fill()
            refused = None
            for number in range(100):
                refused = cluster.run("ramcore", "--timeout-ms", "1500", "create", f"t{number}", check=False)
                if refused.returncode:
                    break
            self.assertEqual(refused.returncode, 1)
            self.assertRegex(refused.stderr, rf"^ramcore: table 't\d+': {FULL}; make room there")
            self.assertEqual(len(refused.stderr.splitlines()), 1)
            status = cluster.status()
            self.assertEqual((status["health"], status["coordinator"]["storage_full"]), ("degraded", True))
            self.assertTrue(any(FULL in reason for reason in status["reasons"]), status["reasons"])
            self.assertEqual(cluster.is_full_by_metrics(), 1)
            # Calls that need no coordinator go on. A new client that wants to write needs it.
            self.assertEqual(cluster.rc("get", "before", "k").strip(), "v")
            late = cluster.run("ramcore", "--timeout-ms", "1500", "put", "before", "k", "w", check=False)
            self.assertRegex(late.stderr, rf"^ramcore: object 'k' of table 'before': {FULL}")
            # The log has one line, however often something cannot be stored, verdicts included.
            cluster.servers.pop("s1").kill()
            wait_for(time.monotonic, lambda now, end=time.monotonic() + 14: now > end)
            self.assertEqual(cluster.coordinator.log().count(FULL), 1, cluster.coordinator.log())
            os.unlink(cluster.filler())
            cluster.coordinator.wait_says("there is room again", 15)
            wait_for(cluster.is_full_by_metrics, lambda full: full == 0, 15)
            cluster.start_server("s2")
            cluster.rc("create", "after")


class RightsTest(unittest.TestCase):
    def test_nobody_else_may_read_what_daemons_keep(self):
        usual = os.umask(0o022)
        self.addCleanup(os.umask, usual)
        with Cluster(servers=2, replicas=1, coordinator_in_memory=False) as cluster:
            cluster.rc("create", "t")
            found = {}
            for top in ("coordinator", "s1", "s2"):
                for folder, _, names in os.walk(cluster.path(top)):
                    for path in (folder, *(os.path.join(folder, name) for name in names)):
                        found[os.path.relpath(path, cluster.directory)] = stat.S_IMODE(os.stat(path).st_mode)
            self.assertIn("coordinator/coordinator.sqlite", found)
            self.assertIn("coordinator/coordinator.sqlite-wal", found)
            self.assertIn("s1/frames", found)
            self.assertEqual({path: oct(mode) for path, mode in found.items() if mode & 0o077}, {})

    def test_a_database_of_an_older_version_is_closed_to_others(self):
        with Cluster(servers=0, coordinator_in_memory=False) as cluster:
            cluster.coordinator.stop()
            path = cluster.path("coordinator/coordinator.sqlite")
            os.chmod(path, 0o644)
            cluster.start_coordinator()
            self.assertEqual(oct(os.stat(path).st_mode & 0o777), "0o600")


class LeavingTest(unittest.TestCase):
    def test_servers_that_leave_together_in_order_are_no_disaster(self):
        with Cluster(servers=4, replicas=3) as cluster:
            cluster.rc("create", "t", "--tablets", "4")
            for number in range(20):
                cluster.rc("put", "t", f"key{number}", "value")
            for server in cluster.servers.values():
                server.signal(signal.SIGTERM)
            for server in cluster.servers.values():
                self.assertEqual(server.stop(), 0)
            # A coordinator that outlives them for a while has nothing more to say of that.
            wait_for(time.monotonic, lambda now, end=time.monotonic() + 7: now > end)
            self.assertEqual(cluster.coordinator.stop(), 0)
            said = cluster.coordinator.log()
            self.assertEqual(len(re.findall(r"has left", said)), 4, said)
            self.assertNotIn("cannot be recovered", said)
            # And they come back.
            cluster.start_coordinator()
            for name in list(cluster.servers):
                cluster.start_server(name, wait=False)
            for server in cluster.servers.values():
                server.wait_ready()
            cluster.wait_status(lambda now: now["health"] == "ok")
            self.assertEqual(len(cluster.export("t")), 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
