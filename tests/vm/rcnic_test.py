#!/usr/bin/env python3
"""rcnic over queue pairs: every experiment runs, on software devices the comparison with papers means nothing, and a server
sends by the thresholds of its own device. Runs in a machine with RDMA devices (tests/vm/run)."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import Cluster, tool  # noqa: E402 (the path comes first)
from metrics_endpoint import free_port, scrape  # noqa: E402

EXPERIMENTS = {"copy", "crossover", "operations", "lengths", "layout", "deltas", "inline", "signals", "pages"}
DEVICES = ("--device", os.environ.get("RDMA_DEV0", ""), "--peer-device", os.environ.get("RDMA_DEV1", ""))
SECRET = "a secret for this machine alone"


def rcnic(*arguments):
    done = subprocess.run([tool("rcnic"), *arguments], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode != 0:
        raise AssertionError(f"rcnic {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def gathered_bytes(port):
    return int(scrape(port)[0]['ramcore_sent_gathered_bytes_total{transport="verbs"}'])


class VerbsRcnicTest(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.environ.get("RDMA_DEV0"), "this machine has no RDMA devices")
        self.directory = tempfile.TemporaryDirectory(prefix="rcnic")
        self.addCleanup(self.directory.cleanup)
        self.file = os.path.join(self.directory.name, "gather")

    def test_every_experiment_runs_and_means_nothing(self):
        self.assertRegex(rcnic("list"), r"(?m)^verbs rxe0: .* gather entries, .* \(software\)$")
        output = rcnic("run", "--smoke", "--transport", "verbs", *DEVICES)
        self.assertEqual(set(re.findall(r"^verbs:rxe0, (\w+): ", output, re.M)), EXPERIMENTS)
        for operation in ("send inline", "write zero-copy", "write inline", "read zero-copy", "send copy-out"):
            self.assertRegex(output, rf"(?m)^{operation} ")
        self.assertIn("The comparison means nothing about adapters", output)
        self.assertNotRegex(output, "verdict: (confirmed|refuted)")

    def test_a_finding_that_was_measured_means_nothing(self):
        output = rcnic("run", "--transport", "verbs", *DEVICES, "--experiment", "signals", "--rounds", "2",
                       "--round-ms", "2", "--memory-mb", "8")
        self.assertRegex(output, r"unsignalled-is-faster: .*\n.*\n.*; measured [\d.]+x; "
                                 r"verdict: means nothing \(verbs:rxe0 is no adapter\)")

    def test_a_server_sends_by_the_thresholds_of_its_device(self):
        rcnic("calibrate", "--smoke", *DEVICES, "--out", self.file)
        with open(self.file, encoding="utf-8") as file:
            self.assertRegex(file.read(), r"\[verbs:rxe0\]\ncopy_below_bytes = \d+\ninline_bytes_max = \d+\n"
                                          r"entries_max = \d+\n")
        # The server has the other device. Values of 1000 B: from there on they are sent from where they are.
        for threshold, is_gathered in ((500, True), (4000, False)):
            with open(self.file, "w", encoding="utf-8") as file:
                file.write(f"[verbs:rxe0]\ncopy_below_bytes = 1\n[verbs:rxe1]\ncopy_below_bytes = {threshold}\n")
            with Cluster(servers=1, secret=SECRET, transports=("verbs",), autostart=False) as cluster:
                cluster.start_coordinator()
                port = free_port()
                server = cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}", "--gather-file", self.file])
                self.assertIn(f"as measured of rxe1, chunks below {threshold} B are copied", server.log())
                load = ["rcbench", "--transport", "verbs", "--records", 100, "--value-bytes", 1000, "--json"]
                cluster.run(*load, "--load-only")
                before = gathered_bytes(port)
                report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--operations", 100).stdout)
                self.assertEqual(report["errors"], {})
                gathered = gathered_bytes(port) - before
                self.assertEqual(gathered > 0, is_gathered, f"{gathered} B gathered with a threshold of {threshold}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
