#!/usr/bin/env python3
"""The simulator with a limit of time: seeds that do not fit are left out, and it says how many, and fails if they are too many."""
import os
import re
import subprocess
import sys
import unittest

SIMULATOR = os.environ.get("RAMCORE_SIMULATOR")


def run(*flags):
    return subprocess.run([SIMULATOR, "--calls", "8", *flags], capture_output=True, text=True, timeout=300, check=False)


def seeds_of(result):
    return int(re.search(r"^(\d+) seeds, 0 failed", result.stdout, re.MULTILINE).group(1))


class TimeLimitTest(unittest.TestCase):
    def test_all_are_run_when_there_is_time(self):
        result = run("--seeds", "5", "--jobs", "2", "--within", "250")
        self.assertEqual((result.returncode, seeds_of(result)), (0, 5), result.stdout)
        self.assertNotIn("were asked for", result.stdout)

    def test_some_are_enough_where_that_was_said(self):
        result = run("--seeds", "1000000", "--jobs", "2", "--within", "1", "--at-least", "2")
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertTrue(2 <= seeds_of(result) < 1000000, result.stdout)
        self.assertIn("1000000 seeds were asked for; the time of 1 s was over before (2 are needed)", result.stdout)

    def test_too_few_are_a_failure(self):
        result = run("--seeds", "1000000", "--within", "1", "--at-least", "0")
        self.assertEqual(result.returncode, 0, result.stdout)
        for flags in ([], ["--at-least", "999999"]):
            result = run("--seeds", "1000000", "--jobs", "2", "--within", "1", *flags)
            self.assertEqual(result.returncode, 1, result.stdout)
            self.assertLess(seeds_of(result), 999999)

    def test_limits_that_make_no_sense_are_refused(self):
        for flags in (["--seeds", "5", "--at-least", "3"], ["--seeds", "5", "--within", "1", "--at-least", "6"], ["--within", "x"]):
            result = run(*flags)
            self.assertEqual(result.returncode, 2, flags)
            self.assertIn("--within SECONDS", result.stderr)


if __name__ == "__main__":
    if not SIMULATOR:
        sys.exit("time_limit_test: RAMCORE_SIMULATOR names the simulator")
    unittest.main()
