#!/usr/bin/env python3
"""What a recovery takes beside --memory: a server whose keys were written and removed again and again dies, and those that recover
it have --memory and a quarter of it."""

import json
import os
import resource
import time
import unittest

from cluster_harness import BIN_DIR, Cluster, run, wait_for
from memory_group import memory_group
from metrics_endpoint import free_port, scrape

MEMORY = 768 << 20
LIMIT = MEMORY + MEMORY // 4
KEPT = 1000
SANITIZED = os.environ.get("RAMCORE_SANITIZE")


def status_of(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(field + ":"))


class Bounded(Cluster):
    """Each server may have LIMIT bytes: by a control group of its own where we may make one. Where not, the memory that it can
    write to and that is nobody else's may grow by a quarter of --memory once it is ready, which is less: it has some before."""

    def __init__(self, case, **options):
        super().__init__(memory=f"{MEMORY >> 20}MiB", **options)
        self.ports = {}
        self.groups = {}
        found = memory_group()
        if found is not None:
            outer, self.limit_file = found
            case.addCleanup(os.rmdir, outer)
            for number in range(self._planned_servers):
                name = f"s{number + 1}"
                self.groups[name] = os.path.join(outer, name)
                os.mkdir(self.groups[name])
                case.addCleanup(self.remove, self.groups[name])

    @staticmethod
    def remove(group):
        # A process that has just ended may still be in it.
        def gone():
            try:
                os.rmdir(group)
            except OSError:
                return False
            return True
        wait_for(gone, lambda is_gone: is_gone, seconds_max=10)

    def process_prefix(self, name):
        if name not in self.groups:
            return []
        return ["sh", "-c", f'echo $$ > {self.groups[name]}/cgroup.procs && exec "$@"', "sh"]

    def process_flags(self, name):
        if not name.startswith("s"):
            return []
        self.ports[name] = free_port()
        return ["--metrics", f"127.0.0.1:{self.ports[name]}"]

    def limit(self):
        """Not before they are ready: they would refuse to start without room for an index, which is not needed here."""
        for group in self.groups.values():
            with open(os.path.join(group, self.limit_file), "w", encoding="ascii") as file:
                file.write(str(LIMIT))
        for server in self.servers.values() if not self.groups else ():
            most = status_of(server.process.pid, "VmData") + MEMORY // 4
            resource.prlimit(server.process.pid, resource.RLIMIT_DATA, (most, most))


@unittest.skipIf(SANITIZED, "sanitizers take more memory than what they watch")
class RecoveryMemoryTest(unittest.TestCase):
    def recover(self, keys, lag):
        """Gives the metrics of the server that recovered, and what was replayed of the dead one's log."""
        with Bounded(self, servers=3, replicas=2, min_replicas=1, storage="640MiB", transports=("tcp",)) as cluster:
            cluster.limit()
            cluster.rc("create", "t", "--tablets", "1")
            run([os.path.join(BIN_DIR, "..", "cluster_churn"), "--coordinator", cluster.coordinator_locator(), "--cluster", cluster.name,
                 "--table", "t", "--keys", str(keys), "--lag", str(lag), "--kept", str(KEPT)], timeout=300)
            dead = cluster.tablets("t")[0]["server"]
            others = [server for name, server in cluster.servers.items() if name != dead]
            before = {server.name: status_of(server.process.pid, "RssAnon") for server in others}
            cluster.servers[dead].kill()
            killed = time.monotonic()

            def expect_alive():
                for server in others:
                    self.assertTrue(server.is_running(), f"{server.name} had no memory left")

            def is_over(now):
                expect_alive()
                return not now["recoveries"] and now["health"] != "unavailable" and len(now["servers"]) == 2

            cluster.wait_status(is_over, seconds_max=120)
            seconds = time.monotonic() - killed
            try:
                objects = cluster.export("t")
            finally:
                expect_alive()
            self.assertEqual({key: value for key, (value, _) in objects.items()}, {f"kept {i}": f"value {i}" for i in range(KEPT)})
            metrics = [scrape(cluster.ports[server.name])[0] for server in others]
            master = max(metrics, key=lambda values: values.get("ramcore_recovery_replayed_bytes_total", 0))
            grown = {server.name: (status_of(server.process.pid, "VmHWM") - before[server.name]) >> 20 for server in others}
            print(f"{keys} keys, lag {lag}: recovered after {seconds:.1f} s; before {before}, grown by MiB {grown}; "
                  + json.dumps({name: value for name, value in master.items() if "recovery" in name}), flush=True)
            return master

    def test_keys_that_are_removed_soon(self):
        metrics = self.recover(1_000_000, 1000)
        self.assertGreater(metrics["ramcore_recovery_replayed_bytes_total"], 200 << 20)
        # A tombstone is of no use any more when its segment, or the one before, has been replayed.
        self.assertLess(metrics["ramcore_recovery_notes_bytes_max"], metrics["ramcore_recovery_replayed_bytes_total"] / 64)
        self.assertEqual(metrics["ramcore_recovery_notes_bytes"], 0)

    def test_keys_that_are_removed_late(self):
        """All tombstones are newer than all objects: the worst case."""
        metrics = self.recover(1_000_000, 1_000_000)
        self.assertGreater(metrics["ramcore_recovery_replayed_bytes_total"], 200 << 20)
        self.assertLess(metrics["ramcore_recovery_notes_bytes_max"], metrics["ramcore_recovery_replayed_bytes_total"] / 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
