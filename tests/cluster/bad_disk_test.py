#!/usr/bin/env python3
"""A disk that refuses to flush: its server keeps nothing there any more and says so, others keep the copies, and nothing
that was acknowledged is lost. And one that takes its time for it: that is given to it while nobody waits for the end."""

import os
import signal
import subprocess
import unittest

from cluster_harness import Cluster, Daemon

# Some of the first flushes succeed, those that make the storage the server's. No later one does.
BAD_DISK = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync",
            "-e", "inject=fdatasync:error=EIO:when=6+"]
# Each flush begins only after so many seconds.
SLOW_S = 16
SLOW_DISK = BAD_DISK[:-1] + [f"inject=fdatasync:delay_enter={SLOW_S * 1_000_000}:when=6+"]


def can_trace():
    return subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode == 0


@unittest.skipIf(os.environ.get("RAMCORE_SANITIZE"), "the leak sanitizer cannot run below strace")
class BadDiskTest(unittest.TestCase):
    def test_a_failed_flush_condemns_the_storage_and_loses_nothing(self):
        if not can_trace():
            self.skipTest("this machine forbids to trace processes, so that no flush can be made to fail")
        with Cluster(servers=3, replicas=3) as cluster:
            bad = Daemon("s4", BAD_DISK + cluster.server_arguments("s4"), cluster.path("s4.log"))
            cluster.servers["s4"] = bad
            bad.wait_ready()
            cluster.rc("create", "t", "--durability", "sync")
            written = {}
            while "it is not used any more" not in bad.log():
                key = f"key{len(written)}"
                cluster.rc("put", "t", key, "value")
                written[key] = "value"
                self.assertLess(len(written), 500, bad.log())
            status = cluster.wait_status(lambda now: now["replicas"]["least"] == 2)
            self.assertEqual({one["name"]: one["storage_failed"] for one in status["servers"]},
                             {"s1": False, "s2": False, "s3": False, "s4": True})
            self.assertEqual(status["health"], "degraded")
            reasons = [reason for reason in status["reasons"] if "storage" in reason]
            self.assertEqual(len(reasons), 1, status)
            self.assertRegex(reasons[0], r"storage of server \d+ \(s4\) has failed .* another disk")
            self.assertRegex(cluster.rc("status"), r"s4 +serving .* failed ")
            self.assertIn("cannot flush file frames", bad.log())
            self.assertTrue(bad.is_running())
            # The server goes on serving its tablets.
            self.assertIn("s4", {tablet["server"] for tablet in cluster.tablets("t")})
            cluster.rc("put", "t", "afterwards", "value")
            written["afterwards"] = "value"

            cluster.start_server("s5")
            self.assertEqual(bad.stop(), 0)
            cluster.wait_status(lambda now: now["health"] == "ok" and now["replicas"]["least"] == 3)
            self.assertEqual({key: value for key, (value, _) in cluster.export("t").items()}, written)

    def test_a_signal_ends_a_stop_that_has_begun_by_itself(self):
        if not can_trace():
            self.skipTest("this machine forbids to trace processes, so that no flush can be made to take long")
        with Cluster(servers=3, replicas=3) as cluster:
            slow = Daemon("s4", SLOW_DISK + cluster.server_arguments("s4"), cluster.path("s4.log"))
            self.addCleanup(slow.process.kill)
            slow.wait_ready()
            cluster.rc("create", "t")
            for i in range(50):
                cluster.rc("put", "t", f"key{i}", "value")
            slow.signal(signal.SIGSTOP)
            cluster.coordinator.wait_says("(s4) is declared dead", 20)
            slow.signal(signal.SIGCONT)
            # The server stops, to begin anew, and first flushes the replicas that it keeps for others.
            slow.wait_says("going on as a new server, from nothing")
            slow.signal(signal.SIGTERM)
            slow.wait_says("stopping took longer than 5 s; ending without it", SLOW_S - 3)
            # strace lets it go when the flush is over.
            self.assertEqual(slow.process.wait(2 * SLOW_S), 1, slow.log())


if __name__ == "__main__":
    unittest.main()
