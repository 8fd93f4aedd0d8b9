#!/usr/bin/python3
"""What tests with real processes make of the judge: Cluster.judge_directories (tests/cluster/cluster_harness.py) on directories that
are written here, and which calls of tools leave an export as true as it was."""

import os
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cluster")]

import cluster_harness  # noqa: E402
import directory_writer as writer  # noqa: E402
from frame_writer import file_of, replica, segment  # noqa: E402


class JudgedClusterTest(unittest.TestCase):
    def setUp(self):
        self.cluster = cluster_harness.Cluster(replicas=2, autostart=False)
        self.addCleanup(shutil.rmtree, self.cluster.directory)
        writer.write_cluster(self.cluster.directory)

    def export(self, table="t", objects=None):
        self.cluster.exported[table] = writer.write_export(self.cluster.path(f"{table}.export"), objects)

    def refused(self, reason):
        with self.assertRaisesRegex(cluster_harness.Failed, reason):
            self.cluster.judge_directories()

    def test_what_was_exported_is_there(self):
        self.export()
        self.cluster.judge_directories()
        self.export(objects={**writer.OBJECTS, "c": ("of c", 3)})
        self.refused("b'c' of server 9: version 3 was shown, and is not there")

    def test_nothing_to_judge_passes_only_where_nothing_was_told(self):
        self.cluster.judge_directories()
        os.remove(self.cluster.path("coordinator/coordinator.sqlite"))
        self.cluster.judge_directories()
        self.export()
        self.refused("no coordinator has left its state here")

    def test_a_table_that_was_misspelt(self):
        self.export("other")
        self.refused("there is no table 'other'")

    def test_a_judge_that_is_called_wrongly(self):
        self.cluster.exported[""] = self.cluster.path("t.export")
        self.refused("usage: ")

    def test_no_key_was_judged_of_those_that_were_told(self):
        # An operator has given up a part of the only log that has them; another one is judged.
        records = {"server/9": writer.server(loss_token=1), "table/1": writer.table(), "tablet/1": writer.tablet()}
        self.export()
        with open(self.cluster.path("s1/frames"), "wb") as file:
            file.write(file_of([replica(8, 1, segment(8, 1, [], members=[1]))]))
        records |= {"server/8": writer.message((1, (8,)), (19, 2)), "table/2": writer.table("u", 2),
                    "tablet/2": writer.tablet(2, table_id=2, owner=8)}
        writer.write_state(self.cluster.directory, records)
        self.refused("no key was judged")
        self.export(objects={})
        self.cluster.judge_directories()
        self.cluster.exported.clear()
        self.cluster.journals["t"] = writer.write_export(self.cluster.path("journal"), {})
        self.refused("no key was judged")


class CommandsTest(unittest.TestCase):
    def changes(self, *arguments, name="ramcore"):
        return cluster_harness.may_change_objects(name, arguments)

    def test_reads_leave_an_export_true(self):
        for arguments in (["get", "t", "k"], ["export", "t"], ["status", "--json"], ["--timeout-ms", 300, "get", "t", "put"],
                          ["--timeout-ms=300", "--rdma-device", "put", "export", "t"]):
            self.assertFalse(self.changes(*arguments), arguments)
        self.assertFalse(self.changes("move", 1, "--to", "s2", name="rcmigrate"))

    def test_only_the_subcommand_says_that_nothing_changes(self):
        for arguments in (["put", "t", "get", "x"], ["delete", "t", "status"], ["import", "export"], ["create", "inspect"], [],
                          ["--timeout-ms", 300, "put", "get", "k", "v"], ["--timeout-ms", "get", "put", "t", "k", "v"],
                          ["recover", "--accept-loss", "get"]):
            self.assertTrue(self.changes(*arguments), arguments)
        self.assertTrue(self.changes("get", name="rcbench"))

    def test_an_export_goes_with_the_next_change(self):
        cluster = cluster_harness.Cluster(autostart=False)
        self.addCleanup(shutil.rmtree, cluster.directory)
        cluster.exported["t"] = "an export"
        cluster.tool_name = cluster.coordinator_locator = lambda *_: "none"
        self.addCleanup(setattr, cluster_harness, "tool", cluster_harness.tool)
        cluster_harness.tool = lambda name: name
        cluster.arguments("ramcore", "get", "t", "put")
        self.assertEqual(cluster.exported, {"t": "an export"})
        cluster.arguments("ramcore", "put", "t", "get", "x")
        self.assertEqual(cluster.exported, {})


if __name__ == "__main__":
    unittest.main()
