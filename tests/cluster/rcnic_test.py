#!/usr/bin/env python3
"""rcnic over the transports that every machine has: it measures, writes what it measured, draws it and judges it; its
thresholds are taken by the daemons. How fast anything is, is not looked at."""

import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster_harness import Cluster, tool, wait_for  # noqa: E402 (the path comes first)

EXPERIMENTS = {"copy", "crossover", "operations", "lengths", "layout", "deltas", "inline", "signals", "pages"}


def rcnic(*arguments, code=0):
    done = subprocess.run([tool("rcnic"), *arguments], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != code:
        raise AssertionError(f"rcnic {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class RcnicTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="rcnic")
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def smoke(self, transport, device=""):
        subject = f"{transport}:{device}" if device else transport
        output = rcnic("run", "--smoke", "--transport", transport, "--csv", self.path(transport), "--svg",
                       self.path(transport)).stdout
        tables = set(re.findall(rf"^{subject}, (\w+): ", output, re.M))
        self.assertEqual(tables, EXPERIMENTS)
        self.assertIn("The comparison means nothing about adapters", output)
        self.assertNotIn("verdict: confirmed", output)
        with open(self.path(transport) + "/rcnic.csv", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(",") for line in file]
        self.assertEqual({row[0] for row in rows[1:]}, EXPERIMENTS)
        messages = rows[0].index("messages")
        self.assertTrue(all(int(row[messages]) > 0 for row in rows[1:]), "a round without a message")
        pictures = [name for name in os.listdir(self.path(transport)) if name.endswith(".svg")]
        self.assertGreater(len(pictures), 4)
        for name in pictures:
            xml.dom.minidom.parse(os.path.join(self.path(transport), name))
        return self.path(transport) + "/rcnic.csv"

    def test_shm_and_tcp(self):
        files = [self.smoke("shm"), self.smoke("tcp")]
        # The files that were written give the same verdicts again, without measuring.
        verdicts = rcnic("verdict", *files, "--svg", self.path("again")).stdout
        self.assertIn("shm, held against the papers", verdicts)
        self.assertIn("tcp, held against the papers", verdicts)
        self.assertTrue(os.path.exists(self.path("again") + "/tcp-crossover.svg"))

    def test_dpdk(self):
        self.smoke("dpdk", "net_memif")
        file = self.path("gather")
        rcnic("calibrate", "--smoke", "--transport", "dpdk", "--out", file)
        with open(file, encoding="utf-8") as written:
            self.assertRegex(written.read(), r"\[dpdk:net_memif\]\ncopy_below_bytes = \d+\n")
        for ports, message in ((["net_null0"], "the sender's first"),
                               (["0000:ff:1f.6", "0000:ff:1f.7"], "DPDK gives no port '0000:ff:1f.7'")):
            flags = [word for port in ports for word in ("--dpdk-port", port)]
            self.assertIn(message, rcnic("run", "--smoke", "--transport", "dpdk", *flags, code=2).stderr)

    def test_one_experiment(self):
        output = rcnic("run", "--transport", "shm", "--experiment", "deltas", "--rounds", "2", "--round-ms", "2",
                       "--memory-mb", "8").stdout
        self.assertEqual(set(re.findall(r"^shm, (\w+): ", output, re.M)), {"deltas"})
        self.assertIn("send zero-copy 16384 + 31 x 1024 B", output)

    def test_nothing_is_left_when_it_is_interrupted(self):
        for transport in ("shm", "dpdk"):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with self.subTest(transport=transport, signal=number):
                    # A signal that the parent of this test ignores would be ignored there, too.
                    process = subprocess.Popen(
                        [tool("rcnic"), "run", "--transport", transport, "--rounds", "1000", "--memory-mb", "8"],
                        env={**os.environ, "TMPDIR": self.directory.name}, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL, preexec_fn=lambda number=number: number == signal.SIGKILL or
                        signal.signal(number, signal.SIG_DFL))

                    def there():
                        self.assertIsNone(process.poll(), "it ended by itself")
                        return glob.glob(self.path("rcnic*/socket"))
                    wait_for(there, bool, 30)
                    process.send_signal(number)
                    self.assertEqual(process.wait(30), -number)
                    wait_for(lambda: os.listdir(self.directory.name), lambda names: not names, 30)

    def test_list(self):
        output = rcnic("list").stdout
        self.assertRegex(output, r"(?m)^dpdk: ")
        self.assertRegex(output, r"(?m)^shm: ")
        self.assertRegex(output, r"(?m)^tcp: ")

    def test_thresholds_are_taken_by_the_daemons(self):
        file = self.path("gather")
        with open(file, "w", encoding="utf-8") as out:
            out.write("[verbs:mlx5_0]\nentries_max = 9\n")
        rcnic("calibrate", "--smoke", "--transport", "tcp", "--out", file)
        with open(file, encoding="utf-8") as written:
            text = written.read()
        self.assertIn("[verbs:mlx5_0]\nentries_max = 9\n", text, "what it said about others is gone")
        self.assertRegex(text, r"\[tcp\]\ncopy_below_bytes = \d+\n")
        self.assertEqual([name for name in os.listdir(self.directory.name) if "partial" in name], [])
        with Cluster(servers=1, autostart=False) as cluster:
            cluster.start_coordinator()
            cluster.start_server("s1", extra=["--gather-file", file])
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "x" * 3000)
            self.assertEqual(cluster.rc("get", "t", "key").strip(), "x" * 3000)

    def test_mistakes_have_a_cause_and_a_remedy(self):
        bad = self.path("bad")
        with open(bad, "w", encoding="utf-8") as out:
            out.write("[tcp]\ncopy_below_bytes = many\n")
        for arguments in (["calibrate", "--smoke", "--transport", "tcp", "--out", bad], ["verdict", bad]):
            done = rcnic(*arguments, code=2)
            self.assertRegex(done.stderr, rf"^rcnic: {re.escape(bad)}:\d+: .*; .*\n$")
        with open(bad, encoding="utf-8") as unchanged:
            self.assertEqual(unchanged.read(), "[tcp]\ncopy_below_bytes = many\n")
        done = subprocess.run([tool("ramcore-coordinator"), "--storage", self.path("c"), "--gather-file", bad],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"{bad}:2: 'many' is no value of copy_below_bytes; give a whole number from 1 to 16384", done.stderr)
        missing = rcnic("verdict", self.path("nothing"), code=1)
        self.assertIn("; give a file that rcnic run --csv has written", missing.stderr)
        self.assertIn("there is no command 'measure'", rcnic("measure", code=2).stderr)
        self.assertIn("leave them out", rcnic("run", "--smoke", "--transport", "shm", "--device", "x", code=2).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
