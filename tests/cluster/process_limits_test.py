#!/usr/bin/env python3
"""Signals and limits of the system: none of them ends a daemon without a word, and none makes it spin."""

import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from cluster_harness import Cluster, Daemon, Failed, signal, tool, wait_for
from memory_group import memory_group

CLOEXEC = 0o2000000
NOBODY = 65534


class Limited(Cluster):
    """Processes under limits: {name: arguments of prlimit}."""

    def __init__(self, limits, **options):
        super().__init__(**options)
        self.limits = limits

    def process_prefix(self, name):
        return ["prlimit", *self.limits[name], "--"] if name in self.limits else []


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def open_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def tcp_address(daemon):
    locator = next(locator for locator in daemon.locators if locator.startswith("tcp://"))
    host, port = locator[len("tcp://"):].rsplit(":", 1)
    return host, int(port)


def connections(address, count):
    """That say nothing. Those that are refused are of the count, too."""
    found = []
    for _ in range(count):
        one = socket.socket()
        one.setblocking(False)
        try:
            one.connect(address)
        except BlockingIOError:
            pass
        found.append(one)
    return found


class SignalTest(unittest.TestCase):
    def test_sighup_and_sigusr2_are_ignored_with_a_line(self):
        with Cluster(servers=1) as cluster:
            for daemon in (cluster.coordinator, cluster.servers["s1"]):
                for number, name in ((signal.SIGHUP, "SIGHUP"), (signal.SIGUSR2, "SIGUSR2")):
                    daemon.signal(number)
                    daemon.wait_says(f"{name} is ignored")
                    self.assertTrue(daemon.is_running())
            cluster.rc("create", "t")
            self.assertEqual(set(cluster.stop().values()), {0})


class DescriptorTest(unittest.TestCase):
    def test_the_soft_limit_is_raised_to_the_hard_one(self):
        limit = "--nofile=300:5000"
        with Limited({"coordinator": [limit], "s1": [limit]}, servers=1) as cluster:
            for daemon in (cluster.coordinator, cluster.servers["s1"]):
                with open(f"/proc/{daemon.process.pid}/limits", encoding="ascii") as file:
                    soft = re.search(r"Max open files +(\d+) +(\d+)", file.read())
                self.assertEqual(soft.groups(), ("5000", "5000"), daemon.name)
                # 16,384 sessions do not fit into that.
                daemon.wait_says("takes 4968 sessions, not --sessions-max 16384")

    def test_without_descriptors_a_daemon_pauses_and_goes_on(self):
        """Silent connections take every descriptor; who comes then is refused or waits, and the daemon hardly notices. Counts
        of refusals are right: nobody can be refused who did not come."""
        with Cluster(servers=1, transports=("tcp",)) as cluster:
            cluster.rc("create", "t")
            for daemon in (cluster.coordinator, cluster.servers["s1"]):
                pid = daemon.process.pid
                # Fewer than it knows of: sessions run out of descriptors before they run out of number.
                limit = open_files(pid) + 8
                enough = resource.prlimit(pid, resource.RLIMIT_NOFILE)
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, enough[1]))
                silent = connections(tcp_address(daemon), 60)
                try:
                    wait_for(lambda pid=pid: open_files(pid), lambda count, limit=limit: count >= limit - 1)
                    before, began = cpu_seconds(pid), time.monotonic()
                    wait_for(time.monotonic, lambda now, began=began: now > began + 2)
                    spent = (cpu_seconds(pid) - before) / (time.monotonic() - began)
                    self.assertLess(spent, 0.15, f"{daemon.name} spins")
                finally:
                    for one in silent:
                        one.close()
                # With them gone there are descriptors again, within a pause.
                resource.prlimit(pid, resource.RLIMIT_NOFILE, enough)
                cluster.rc("--timeout-ms", "5000", "put", "t", "k", "v")
                said = daemon.log()
                self.assertIn("may open no more files", said)
                more = sum(int(count) for count in re.findall(r"and (\d+) more warnings", said))
                self.assertLessEqual(said.count("may open no more files") + more, 60 + 20, said)

    def test_sessions_beyond_the_maximum_are_refused(self):
        with Cluster(servers=0, transports=("tcp",)) as cluster:
            daemon = Daemon("few", cluster.coordinator_arguments(["tcp://127.0.0.1:0"], cluster.path("few")) +
                            ["--sessions-max", "16"], cluster.path("few.log"))
            daemon.wait_ready()
            silent = connections(tcp_address(daemon), 40)
            daemon.wait_says("dropping the connection")
            self.assertLess(open_files(daemon.process.pid), 16 + 32)
            for one in silent:
                one.close()
            self.assertEqual(daemon.stop(), 0)

    def test_nothing_is_left_to_a_program_that_is_started(self):
        """Every descriptor of a running daemon, with sessions of every transport, would be closed by exec."""
        with Cluster(servers=2, replicas=1) as cluster:
            cluster.rc("create", "t", "--tablets", "4")
            tools = [cluster.start("rcbench", "--duration-s", "60", "--records", "100", "--outstanding", "1", "--table", "t",
                                   scheme=scheme) for scheme in ("tcp", "shm")]
            try:
                for daemon in (cluster.coordinator, *cluster.servers.values()):
                    wait_for(lambda daemon=daemon: self.sockets(daemon.process.pid), lambda count: count >= 4)
                for process in [cluster.coordinator.process, *(s.process for s in cluster.servers.values()), *tools]:
                    self.assertEqual(self.left_open(process.pid), [], process.args[:1])
            finally:
                for one in tools:
                    one.kill()
                    one.communicate()

    @staticmethod
    def sockets(pid):
        return sum(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))

    @staticmethod
    def left_open(pid):
        left = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if int(fd) <= 2:
                continue
            try:
                with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
                    flags = int(re.search(r"flags:\s*(\d+)", file.read()).group(1), 8)
                what = os.readlink(f"/proc/{pid}/fd/{fd}")
            except FileNotFoundError:
                continue  # it has just been closed
            if not flags & CLOEXEC:
                left.append(f"{fd}: {what}")
        return left


SANITIZED = os.environ.get("RAMCORE_SANITIZE")


@unittest.skipIf(SANITIZED, "sanitizers take more memory than what they watch")
class MemoryTest(unittest.TestCase):
    """A control group of 200 MB around the server, and a smaller one inside it."""

    def setUp(self):
        group = memory_group()
        if group is None:
            self.skipTest("this user may make no control group")
        self.outer, limit = group
        self.inner = os.path.join(self.outer, "inner")
        self.addCleanup(os.rmdir, self.outer)
        with open(os.path.join(self.outer, limit), "w", encoding="ascii") as file:
            file.write(str(200 << 20))
        os.mkdir(self.inner)
        self.addCleanup(os.rmdir, self.inner)

    def inside(self, arguments):
        return ["sh", "-c", f'echo $$ > {self.inner}/cgroup.procs && exec "$@"', "sh", *arguments]

    def test_what_the_control_group_does_not_allow_is_refused(self):
        for memory in ("512MiB", "190MiB"):  # the latter without what comes on top
            done = subprocess.run(self.inside([tool("ramcore-server"), "--memory", memory, "--replicas", "0",
                                               "--storage-bytes", "0"]), capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"--memory {memory} and about .* of index and buffers are more than the control "
                             r"group .*ramcore-test-\d+ has, 200 MiB: .*for example \d+MiB, or --memory auto")

    def test_auto_takes_what_fits(self):
        with Cluster(servers=0) as cluster:
            arguments = cluster.server_arguments("s1")
            arguments[arguments.index("--memory") + 1] = "auto"
            server = Daemon("s1", self.inside(arguments), cluster.path("s1.log"))
            cluster.servers["s1"] = server
            server.wait_ready()
            memory = cluster.status()["servers"][0]["memory_bytes"]
            self.assertGreater(memory, 90 << 20)
            self.assertLess(memory, 130 << 20)


class LimitTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="ramcore-test-")
        self.addCleanup(shutil.rmtree, self.directory)

    def path(self, name):
        return os.path.join(self.directory, name)

    def ends(self, arguments, limits, cause, **options):
        """Ends at once with one line and an exit code."""
        done = subprocess.run(["prlimit", *limits, "--", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=60, check=False, **options)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, cause)

    def server(self, *arguments):
        return [tool("ramcore-server"), "--coordinator", "tcp://127.0.0.1:9", "--memory", "64MiB", "--log-level", "error",
                *arguments]

    def coordinator(self, storage):
        return [tool("ramcore-coordinator"), "--listen", "tcp://127.0.0.1:0", "--storage", self.path(storage),
                "--log-level", "error"]

    def test_limit_of_file_sizes_of_a_server(self):
        self.ends(self.server("--storage", self.path("server"), "--storage-bytes", "64MiB"), ["--fsize=1000000"],
                  r"may write files of 1000000 bytes at most; raise that limit \(ulimit -f\).*--storage")

    def test_limit_of_file_sizes_of_a_coordinator(self):
        self.ends(self.coordinator("coordinator"), ["--fsize=2000"], r"File too large.*ulimit -f")

    def test_limit_of_file_sizes_of_a_running_coordinator(self):
        with Cluster(servers=1) as cluster:
            grown = os.path.getsize(cluster.path("coordinator/coordinator.sqlite-wal"))
            resource.prlimit(cluster.coordinator.process.pid, resource.RLIMIT_FSIZE, (grown, grown))
            try:
                for number in range(200):
                    cluster.rc("--timeout-ms", "500", "create", f"t{number}")
            except Failed:
                pass
            self.assertEqual(cluster.coordinator.process.wait(20), 1)
            self.assertRegex(cluster.coordinator.log(), r"storage failed .*File too large.*ulimit -f")
            cluster.start_coordinator()
            cluster.rc("create", "after")

    @unittest.skipIf(SANITIZED, "sanitizers start threads of their own")
    def test_limit_of_threads(self):
        """What may start no thread says so. (The limit does not hold for root.)"""
        options = {}
        if os.geteuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
            options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            done = subprocess.run([tool("ramcore-server"), "--version"], capture_output=True, check=False, **options)
            if done.returncode != 0:
                self.skipTest("nobody else may run the programs of this build")
        for arguments in (self.coordinator("c"), self.server("--replicas", "0", "--storage-bytes", "0"),
                          self.server("--storage", self.path("s"), "--storage-bytes", "64MiB")):
            self.ends(arguments, ["--nproc=1"], r"cannot start a thread \(.*\); raise the limit of threads \(ulimit -u",
                      **options)


if __name__ == "__main__":
    unittest.main(verbosity=2)
