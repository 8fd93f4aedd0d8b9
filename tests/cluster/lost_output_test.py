#!/usr/bin/env python3
"""Tools that cannot write their output (a full disk, a standard output that is closed, a pipe that nobody reads) say so in
one line and end with 1: whoever called them must not take nothing for everything."""

import json
import os
import subprocess
import unittest

from cluster_harness import Cluster, tool

# The names of the ways to lose the output.
FULL, CLOSED, UNREAD = "No space left on device", "Bad file descriptor", "Broken pipe"
OBJECTS = 5000

# Each command that prints, and what is behind the flags of the cluster.
COMMANDS = [("ramcore", *rest) for rest in (
    ["list"], ["status"], ["status", "--json"], ["get", "t", "k1"], ["scan", "t"], ["scan", "t", "--limit", "3"],
    ["export", "--quiet", "t"], ["put", "t", "printed", "v", "--print-version"], ["increment", "t", "count"], ["recover"],
    ["recover", "--json"])
] + [("rcmigrate", *rest) for rest in (["list"], ["list", "t"], ["list", "t", "--json"])
] + [("rcbench", "--records", "10", "--duration-s", "0.1", "--warmup-s", "0", "--drop", *rest) for rest in ([], ["--json"], ["--csv"])]
# Those that need no cluster.
ALONE = [(name, *rest) for name in ("ramcore", "rcmigrate", "rcbench", "rcnic", "ramcore-server", "ramcore-coordinator")
         for rest in (["--help"], ["--version"])
         if rest == ["--help"] or name in ("rcnic", "ramcore-server", "ramcore-coordinator")] + [("rcnic", "list")]


class LostOutput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=2)
        cls.cluster.__enter__()
        cls.cluster.rc("create", "t")
        lines = [json.dumps({"key": f"k{i}", "value": "v" * 100}) for i in range(OBJECTS)]
        cls.cluster.rc("import", "--quiet", "t", stdin="\n".join(lines) + "\n")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def command(self, name, *rest):
        return [tool(name), *rest] if (name, *rest) in ALONE else self.cluster.arguments(name, *rest)

    def expect(self, arguments, cause, **how):
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **how)
        said = f"{' '.join(arguments)}\nexit code {done.returncode}, stderr:\n{done.stderr}"
        self.assertEqual(done.returncode, 1, said)
        self.assertEqual(len(done.stderr.splitlines()), 1, "one line wanted; " + said)
        self.assertRegex(done.stderr, rf"^{os.path.basename(arguments[0])}: cannot write the output: {cause}; ", said)

    def test_a_full_disk_is_told(self):
        for command in COMMANDS + ALONE:
            with self.subTest(command=command), open("/dev/full", "w", encoding="utf-8") as full:
                self.expect(self.command(*command), FULL, stdout=full)

    def test_a_closed_standard_output_is_told(self):
        for command in COMMANDS + ALONE:
            with self.subTest(command=command):
                # A socket that the tool opens must not take its place.
                self.expect(self.command(*command), CLOSED, preexec_fn=lambda: os.close(1))

    def test_a_pipe_that_nobody_reads_is_told(self):
        for command in COMMANDS + ALONE:
            reader, writer = os.pipe()
            os.close(reader)
            with self.subTest(command=command):
                try:
                    self.expect(self.command(*command), UNREAD, stdout=writer)
                finally:
                    os.close(writer)

    def test_a_reader_that_leaves_ends_a_long_output(self):
        for command in ("scan", "export"):
            with self.subTest(command=command):
                process = subprocess.Popen(self.cluster.arguments("ramcore", command, "t"), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                process.stdout.readline()
                process.stdout.close()
                said = process.stderr.read()
                process.stderr.close()
                self.assertEqual(process.wait(60), 1, said)
                self.assertIn(f"cannot write the output: {UNREAD}", said)

    def test_a_file_that_cannot_be_written_is_told(self):
        done = self.cluster.run("ramcore", "export", "--quiet", "t", "/dev/full", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^ramcore: cannot write /dev/full: {FULL}; ")
        done = self.cluster.run("rcbench", "--records", "10", "--duration-s", "0.1", "--warmup-s", "0", "--announce", "/dev/full",
                                "--drop", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"^rcbench: cannot write to --announce /dev/full: {FULL}; ")

    def test_a_value_that_cannot_be_read_is_not_written(self):
        for how, cause in (({"preexec_fn": lambda: os.close(0)}, CLOSED), ({"stdin": os.open("/", os.O_RDONLY)}, "Is a directory")):
            with self.subTest(cause=cause):
                done = subprocess.run(self.cluster.arguments("ramcore", "put", "t", "k1"), stderr=subprocess.PIPE, text=True,
                                      timeout=60, check=False, **how)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, rf"^ramcore: cannot read the value from stdin: {cause}; nothing is written")
                if "stdin" in how:
                    os.close(how["stdin"])
        self.assertEqual(self.cluster.rc("get", "t", "k1"), "v" * 100 + "\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
