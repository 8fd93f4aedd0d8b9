#!/usr/bin/python3
"""judge_directory on directories that are right, that have something wrong, and that leave nothing to judge: each ends with its own
exit code, and says why."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import directory_writer as writer  # noqa: E402
import frame_reader  # noqa: E402

JUDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "judge_directory")
RIGHT, WRONG, USAGE, NOTHING = 0, 1, 2, 3


class DirectoryTest(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="ramcore-frames-"))
        self.export = writer.write_export(os.path.join(self.directory, "t.export"))

    def ends(self, code, says, *told, directory=None):
        done = subprocess.run([JUDGE, directory or self.directory, *told], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, code, done)
        self.assertIn(says, done.stdout + done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout


class RightOnes(DirectoryTest):
    def test_what_was_told_is_there(self):
        writer.write_cluster(self.directory)
        counts = json.loads(self.ends(RIGHT, "", f"--export=t={self.export}"))
        self.assertEqual({name: counts[name] for name in ("disks", "logs", "keys", "told keys")},
                         {"disks": 2, "logs": 3, "keys": 2, "told keys": 2})
        self.assertNotIn("told keys", json.loads(self.ends(RIGHT, "")))

    def test_a_journal(self):
        writer.write_cluster(self.directory)
        journal = os.path.join(self.directory, "journal.ndjson")
        calls = [{"call": 1, "key": "a", "kind": "write", "argument": "of a"}, {"call": 1, "status": "Ok", "version": 1},
                 {"call": 2, "key": "b", "kind": "read"}, {"call": 2, "status": "Ok", "version": 2, "result": "of b"}]
        with open(journal, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(call) + "\n" for call in calls)
            file.write('{"call": 3, "key"')  # it was killed
        self.assertEqual(json.loads(self.ends(RIGHT, "", f"--journal=t={journal}"))["told keys"], 2)
        writer.write_cluster(self.directory, {"a": ("of a", 1)})
        self.ends(WRONG, "b'b' of server 9: version 2 was shown, and is not there", f"--journal=t={journal}")


class WrongOnes(DirectoryTest):
    def test_an_object_is_not_there(self):
        writer.write_cluster(self.directory, {"a": ("of a", 1)})
        self.ends(WRONG, "b'b' of server 9: version 2 was shown, and is not there", f"--export=t={self.export}")

    def test_a_table_that_does_not_exist(self):
        writer.write_cluster(self.directory)
        self.ends(WRONG, "there is no table 'other'", f"--export=other={self.export}")
        self.ends(WRONG, "there is no table 'other'", f"--export=t={self.export}", f"--journal=other={self.export}")

    def test_what_was_told_cannot_be_read(self):
        writer.write_cluster(self.directory)
        for content in ("no json\n", "[]\n", '{"key": "a"}\n', '{"key": "a", "value": "v", "version": 1}\n3\n'):
            with open(self.export, "w", encoding="utf-8") as file:
                file.write(content)
            for kind in ("--export", "--journal"):
                self.ends(WRONG, f"{self.export} cannot be read as what was told of table 't'", f"{kind}=t={self.export}")
        self.ends(WRONG, "missing cannot be read", "--export=t=missing")

    def test_told_and_nothing_to_judge(self):
        told = f"--export=t={self.export}"
        self.ends(WRONG, "no coordinator has left its state here", told)
        writer.write_cluster(self.directory, tablet=None)
        self.ends(WRONG, "no log with copies to judge", told)
        writer.write_cluster(self.directory)
        for name in ("s1", "s2"):
            os.remove(os.path.join(self.directory, name, "frames"))
        self.ends(WRONG, "no log with copies to judge", told)

    def test_told_keys_without_a_place(self):
        told = f"--export=t={self.export}"
        both = {"server/9": writer.server(), "table/1": writer.table(), "table/2": writer.table("u", 2),
                "tablet/2": writer.tablet(2, table_id=2)}
        writer.write_cluster(self.directory)
        hash_of_a = frame_reader.xxh3_64_intdigest(b"a", writer.TABLE)
        holes = {"without a log": {"tablet/1": writer.tablet(has_log=False)},
                 "that is not there": {},
                 "with a hole": {"tablet/1": writer.tablet(last=hash_of_a - 1), "tablet/3": writer.tablet(3, first=hash_of_a + 1)},
                 "of a server without copies": {"server/8": writer.message((1, (8,))), "tablet/1": writer.tablet(owner=8)}}
        for what, records in holes.items():
            with self.subTest(tablet=what):
                writer.write_state(self.directory, both | records)
                self.ends(WRONG, "key b'a' of table 1: version 1 was shown, and no log with copies has its tablet", told)
                self.ends(RIGHT, "")  # nothing is told

    def test_an_owner_without_a_record(self):
        writer.write_cluster(self.directory)
        writer.write_state(self.directory, {"server/9": writer.server(), "table/1": writer.table(), "tablet/1": writer.tablet(),
                                            "table/2": writer.table("u", 2), "tablet/2": writer.tablet(2, table_id=2, owner=8)})
        self.ends(WRONG, "server 8 owns tablets, and there is no record of it")
        self.ends(WRONG, "server 8 owns tablets, and there is no record of it", f"--export=t={self.export}")
        writer.write_cluster(self.directory, server=None)
        self.ends(WRONG, "server 9 owns tablets, and there is no record of it")

    def test_what_is_given_up_is_not_missed(self):
        writer.write_cluster(self.directory, {})
        self.ends(WRONG, "was shown, and is not there", f"--export=t={self.export}")
        writer.write_state(self.directory, {"server/9": writer.server(loss_token=77), "table/1": writer.table(), "tablet/1": writer.tablet(),
                                            "server/8": writer.message((1, (8,)), (19, 2)), "table/2": writer.table("u", 2),
                                            "tablet/2": writer.tablet(2, table_id=2, owner=8)})
        failures = self.ends(WRONG, "the log of server 8 is not whole: it has no end", f"--export=t={self.export}")
        self.assertNotIn("b'a'", failures)

    def test_what_is_left_cannot_be_read(self):
        writer.write_cluster(self.directory)
        with open(os.path.join(self.directory, "s1", "frames"), "wb"):
            pass  # an empty one is as good as none
        self.ends(RIGHT, "", f"--export=t={self.export}")
        writer.write_state(self.directory, {"server/9": writer.server()[:-1], "table/1": writer.table(), "tablet/1": writer.tablet()})
        self.ends(WRONG, "cannot be read")
        with open(os.path.join(self.directory, "coordinator", "coordinator.sqlite"), "wb") as file:
            file.write(b"no database" * 1000)
        self.ends(WRONG, "cannot be read")


class NothingToJudge(DirectoryTest):
    def test_nothing_is_told_and_nothing_is_there(self):
        self.ends(NOTHING, "no coordinator has left its state here")
        writer.write_cluster(self.directory, tablet=None)
        self.ends(NOTHING, "no log with copies to judge")
        writer.write_cluster(self.directory, server=writer.server(replicas=0))
        self.ends(NOTHING, "no log with copies to judge")

    def test_how_it_is_called(self):
        self.ends(USAGE, "/nonexistent' is no directory", directory="/nonexistent")
        for wrong in ("--export=t", "--export==x", "--journal=t=", "--other"):
            self.ends(USAGE, "usage: ", wrong)


if __name__ == "__main__":
    unittest.main()
