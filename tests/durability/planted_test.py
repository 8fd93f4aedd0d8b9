#!/usr/bin/env python3
"""The oracle's judgement of planted histories: it accepts what a correct store may answer and names the key where it
may not. (The same files are judged by Porcupine in porcupine/main_test.go.)"""

import glob
import os
import subprocess
import tempfile
import unittest

import random_history

HERE = os.path.dirname(os.path.abspath(__file__))
ORACLE = os.environ.get("RAMCORE_DURABILITY_ORACLE") or os.path.join(HERE, "..", "..", "build", "release",
                                                                     "durability_oracle")


def judge(*paths):
    return subprocess.run([ORACLE, "--check", *paths], capture_output=True, text=True, timeout=60, check=False)


class PlantedTest(unittest.TestCase):
    def histories(self, start):
        paths = sorted(glob.glob(os.path.join(HERE, "planted", start + "-*.ndjson")))
        self.assertGreaterEqual(len(paths), 10, "histories are missing")
        return paths

    def test_right_histories_are_accepted(self):
        for path in self.histories("right"):
            with self.subTest(history=os.path.basename(path)):
                done = judge(path)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_wrong_histories_are_refused_and_the_key_is_named(self):
        for path in self.histories("wrong"):
            with self.subTest(history=os.path.basename(path)):
                done = judge(path)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stdout, "key (planted|counter), call [0-9]+: ")
                self.assertNotIn("key other", done.stdout)

    def test_random_right_histories_are_accepted(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, f"{seed}.ndjson") for seed in range(1, 301)]
            for seed, path in enumerate(paths, 1):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("\n".join(random_history.make(seed)) + "\n")
            done = judge(*paths)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count(" 0 violations"), len(paths))

    def test_a_last_line_that_was_cut_off_is_a_call_without_an_end(self):
        with open(os.path.join(HERE, "planted", "wrong-lost-write.ndjson"), encoding="utf-8") as file:
            text = file.read()
        with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
            file.write(text.rstrip("\n")[:-20])
            file.flush()
            done = judge(file.name)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_line_that_makes_no_sense_is_no_verdict(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ndjson") as file:
            file.write('{"call":1,"end":5,"status":"Ok"}\n')
            file.flush()
            self.assertEqual(judge(file.name).returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
