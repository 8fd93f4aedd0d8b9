#!/usr/bin/env python3
"""Files that name a key more than once, as logs of changes do: the last line of a key is what stays, however many lines are
on their way at the same time. Also what stands between lines in files of other systems."""

import json
import random
import unittest

from cluster_harness import Cluster

# Keys, lines, and flags: the same key in one batch, in neighbours, and far from each other.
SHAPES = [(1, 3000, []), (7, 6000, []), (100, 20000, []), (300, 20000, ["--batch", "1"]), (1000, 20000, ["--batch", "7"]),
          (2, 3000, ["--outstanding", "1"]), (3, 600, ["--batch", "1", "--outstanding", "1"]),
          (50, 20000, ["--batch", "4096", "--outstanding", "256"])]


class ImportOrder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=3)
        cls.cluster.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    def test_the_last_line_of_a_key_stays(self):
        for keys, count, flags in SHAPES:
            with self.subTest(keys=keys, lines=count, flags=flags):
                draws = random.Random(keys)
                last, lines = {}, []
                for i in range(count):
                    key = f"k{draws.randrange(keys)}"
                    last[key] = str(i)
                    lines.append(json.dumps({"key": key, "value": last[key]}))
                table = f"order{keys}"
                self.cluster.rc("create", table)
                done = self.cluster.run("ramcore", "import", *flags, table, stdin="\n".join(lines) + "\n")
                self.assertIn(f" {count} objects, ", done.stderr, "all lines count as imported")
                wrong = {key: value for key, (value, _) in self.cluster.export(table).items() if last.get(key) != value}
                self.assertEqual(wrong, {})
                self.assertEqual(len(self.cluster.export(table)), len(last))

    def test_lines_of_blanks_and_other_line_ends_are_passed_over(self):
        self.cluster.rc("create", "blank")
        text = '\n\r\n \t \r\n{"key":"a","value":"1"}\r\n\n{"key":"b","value":"2"}   \r\n   \n\r'
        self.cluster.rc("import", "--quiet", "blank", stdin=text)
        self.assertEqual({key: value for key, (value, _) in self.cluster.export("blank").items()}, {"a": "1", "b": "2"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
