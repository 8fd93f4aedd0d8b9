#!/usr/bin/env python3
"""The coordinator's directory: a wrong one, an older copy and a copy that is made while it runs cost nothing."""

import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
import unittest

from cluster_harness import Cluster, Daemon, run, tool, wait_for

LEASE_S = 2


class WithACluster(unittest.TestCase):
    """Three servers with copies of each other's objects."""

    def setUp(self):
        self.cluster = self.enterContext(Cluster(servers=3, replicas=2, coordinator_in_memory=False))
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.cluster.rc("create", "t")
        for i in range(20):
            self.cluster.rc("put", "t", f"key{i}", f"value{i}")

    def restart_coordinator_on(self, storage, extra=()):
        """A coordinator at the same place, on another directory; not waited for."""
        listen = self.cluster.coordinator.locators
        self.cluster.coordinator.kill()
        arguments = self.cluster.coordinator_arguments(listen, storage) + list(extra)
        self.cluster.coordinator = Daemon("coordinator", arguments, self.cluster.path("coordinator.log"))
        self.cluster.coordinator.locators = listen
        return self.cluster.coordinator

    def export_state(self, name):
        path = self.cluster.path(name)
        done = run([tool("ramcore-coordinator"), "--storage", self.cluster.path("coordinator"), "--export", path])
        self.assertRegex(done.stdout, r"cluster 0x[0-9a-f]{16} up to change [0-9]+")
        self.exported_change = int(re.search(r"up to change ([0-9]+)", done.stdout).group(1))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        return path

    def directory_of(self, exported, name):
        directory = self.cluster.path(name)
        os.mkdir(directory, 0o700)
        shutil.copyfile(exported, os.path.join(directory, "coordinator.sqlite"))
        return directory

    def heard_changes(self):
        """The latest change that each server keeps in its storage (docs/formats.md, "heard")."""
        latest = []
        for name in self.cluster.servers:
            with open(os.path.join(self.cluster.path(name), "heard"), "rb") as file:
                blocks = file.read(2 * 4096)
            records = [struct.unpack_from("<8sIIQQQQ", blocks, at) for at in (0, 4096)]
            latest.append(max(records, key=lambda record: record[3])[6])
        return latest

    def latest_change(self):
        """The latest change that the coordinator has made."""
        path = self.cluster.path("latest")
        done = run([tool("ramcore-coordinator"), "--storage", self.cluster.path("coordinator"), "--export", path])
        os.unlink(path)
        return int(re.search(r"up to change ([0-9]+)", done.stdout).group(1))

    def wait_heard(self):
        """Until each server keeps the latest change, and the exported state does not have it. A command makes several
        changes, and a server that renews its lease between two of them knows only the first: the coordinator would then
        learn of the others one after the other, and an operator would have to accept each number."""
        wait_for(lambda: (self.heard_changes(), self.latest_change()),
                 lambda now: min(now[0]) == now[1] > self.exported_change)

    def expect_same_servers(self, before):
        """All serve again, under the ids that they had, and nothing was recovered."""
        after = self.cluster.wait_status(lambda now: now["health"] == "ok")
        ids = lambda status: sorted((server["name"], server["id"]) for server in status["servers"])
        self.assertEqual(ids(after), ids(before))
        for server in self.cluster.servers.values():
            self.assertTrue(server.is_running())
            self.assertNotIn("declared this server dead", server.log())
        self.assertEqual(len(self.cluster.export("t")), 20)
        self.cluster.rc("put", "t", "another", "value")
        self.cluster.rc("delete", "t", "another")


class WrongDirectoryTest(WithACluster):
    def test_a_coordinator_on_an_empty_directory_is_obeyed_by_nobody(self):
        before = self.cluster.status()
        other = self.restart_coordinator_on(self.cluster.path("elsewhere"))
        other.wait_ready()
        other.wait_says("made a new cluster, 0x")
        for server in self.cluster.servers.values():
            server.wait_says("is of another cluster than this server, " + before["cluster"])
        time.sleep(2 * LEASE_S)  # it has all the time that it wants, and does nothing
        for server in self.cluster.servers.values():
            self.assertTrue(server.is_running())
        self.restart_coordinator_on(self.cluster.path("coordinator")).wait_ready()
        self.expect_same_servers(before)

    def test_the_handshake_names_both_clusters(self):
        before = self.cluster.status()
        other = self.restart_coordinator_on(self.cluster.path("elsewhere"))
        other.wait_ready()
        name = re.findall(r"made a new cluster, (0x[0-9a-f]{16})", other.log())[-1]  # the log has both coordinators
        self.cluster.servers["s1"].wait_says(f"the peer is of cluster {name}, this process of {before['cluster']}")
        self.restart_coordinator_on(self.cluster.path("coordinator")).wait_ready()
        self.expect_same_servers(before)


class OlderCopyTest(WithACluster):
    def test_it_serves_nobody_until_the_right_one_is_back(self):
        copy = self.directory_of(self.export_state("state"), "copy")
        self.cluster.rc("create", "later")
        self.cluster.rc("put", "later", "key", "value")
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        before = self.cluster.status()
        self.wait_heard()
        behind = self.restart_coordinator_on(copy)
        behind.wait_says("this state of the cluster is an older copy: servers have heard of change ")
        refused = self.cluster.run("ramcore", "--timeout-ms", "1000", "create", "wrong", check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("older copy", refused.stderr)
        # It refuses also after a restart, and before any server has spoken.
        again = self.restart_coordinator_on(copy)
        again.wait_says("--accept-missing-changes")
        self.restart_coordinator_on(self.cluster.path("coordinator")).wait_ready()
        self.expect_same_servers(before)
        self.assertEqual({key: value for key, (value, _) in self.cluster.export("later").items()}, {"key": "value"})

    def test_it_serves_nobody_after_everything_was_killed_either(self):
        copy = self.directory_of(self.export_state("state"), "copy")
        self.cluster.rc("create", "later")
        self.wait_heard()
        for server in self.cluster.servers.values():
            server.kill()
        behind = self.restart_coordinator_on(copy)
        servers = [self.cluster.start_server(name, wait=False) for name in list(self.cluster.servers)]
        behind.wait_says("this state of the cluster is an older copy")
        self.restart_coordinator_on(self.cluster.path("coordinator")).wait_ready()
        for server in servers:
            server.wait_ready()
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.assertEqual(len(self.cluster.export("t")), 20)
        self.assertEqual(self.cluster.export("later"), {})

    def test_an_operator_goes_on_without_what_is_missing(self):
        copy = self.directory_of(self.export_state("state"), "copy")
        self.cluster.rc("create", "later")
        self.wait_heard()
        behind = self.restart_coordinator_on(copy)
        behind.wait_says("an older copy: servers have heard of change ")
        number = re.search(r"servers have heard of change ([0-9]+)", behind.log()).group(1)
        wrong = self.restart_coordinator_on(copy, ["--accept-missing-changes", "7"])
        self.assertEqual(wrong.process.wait(30), 1)
        self.assertIn("nothing is known to be missing up to change 7", wrong.log())
        self.restart_coordinator_on(copy, ["--accept-missing-changes", number]).wait_ready()
        # All begin anew in the same processes, and what they held comes back from their storages.
        for server in self.cluster.servers.values():
            server.wait_says("going on as a new server", 30)
        self.cluster.wait_status(lambda now: now["health"] == "ok")
        self.assertEqual(len(self.cluster.export("t")), 20)
        self.assertNotIn("later", self.cluster.rc("list"))
        for server in self.cluster.servers.values():
            self.assertTrue(server.is_running())


class StartTest(unittest.TestCase):
    """Which directory a coordinator takes, before it does anything."""

    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())

    def start(self, *arguments):
        return subprocess.run([tool("ramcore-coordinator"), "--listen", "tcp://127.0.0.1:0", *arguments], cwd=self.directory,
                              capture_output=True, text=True, timeout=20, check=False)

    def made(self, *arguments):
        """Starts one that makes a cluster and stops it; gives the cluster's id."""
        daemon = Daemon("coordinator", [tool("ramcore-coordinator"), "--listen", "tcp://127.0.0.1:0", *arguments],
                        os.path.join(self.directory, "log"))
        daemon.wait_ready()
        self.assertEqual(daemon.stop(), 0)
        return re.search(r"coordinating cluster 'ramcore' \((0x[0-9a-f]{16})\)", daemon.log()).group(1)

    def test_the_default_directory_without_a_cluster_is_refused(self):
        done = self.start()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("there is no cluster in './ramcore-coordinator'", done.stderr)
        self.assertIn("--new-cluster", done.stderr)
        self.assertEqual(os.listdir(self.directory), [], "and nothing was made")

    def test_a_cluster_is_asked_for_and_not_made_twice(self):
        storage = os.path.join(self.directory, "state")
        self.made("--storage", storage, "--new-cluster")
        done = self.start("--storage", storage, "--new-cluster")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("leave out --new-cluster", done.stderr)

    def test_the_cluster_that_was_asked_for_and_no_other(self):
        storage = os.path.join(self.directory, "state")
        id_made = self.made("--storage", storage)
        self.assertEqual(self.made("--storage", storage, "--cluster-id", id_made), id_made)
        done = self.start("--storage", storage, "--cluster-id", "0x1234")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(id_made, done.stderr)
        self.assertIn("0x0000000000001234", done.stderr)
        unmounted = os.path.join(self.directory, "unmounted")
        os.mkdir(unmounted)
        done = self.start("--storage", unmounted, "--cluster-id", id_made)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("a volume that is not mounted", done.stderr)
        self.assertEqual(os.listdir(unmounted), [])

    def test_two_coordinators_on_one_directory(self):
        storage = os.path.join(self.directory, "state")
        first = Daemon("coordinator", [tool("ramcore-coordinator"), "--listen", "tcp://127.0.0.1:0", "--storage", storage],
                       os.path.join(self.directory, "log"))
        first.wait_ready()
        done = self.start("--storage", storage)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("another coordinator uses", done.stderr)
        self.assertEqual(first.stop(), 0)

    def test_exports_that_cannot_be_made(self):
        storage = os.path.join(self.directory, "state")
        target = os.path.join(self.directory, "copy")
        done = self.start("--storage", storage, "--export", target)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no coordinator's state", done.stderr)
        self.made("--storage", storage)
        with open(target, "w", encoding="utf-8") as file:
            file.write("somebody's")
        done = self.start("--storage", storage, "--export", target)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there already", done.stderr)
        with open(target, encoding="utf-8") as file:
            self.assertEqual(file.read(), "somebody's")
        done = self.start("--storage", storage, "--export", os.path.join(self.directory, "no", "such", "folder"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write", done.stderr)


if __name__ == "__main__":
    unittest.main()
