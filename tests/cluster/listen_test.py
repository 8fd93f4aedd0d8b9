#!/usr/bin/env python3
"""A server that is not told where to listen listens over everything that it has; whoever calls it takes the best transport
that it can use, and goes on over the next one where it cannot."""

import os
import pwd
import re
import socket
import subprocess
import unittest

from cluster_harness import Cluster, Failed, run, tool

SOCKET = re.compile(r"ramcore-[0-9a-f]{16}")


class DefaultCluster(Cluster):
    """The servers are not told where to listen; their sockets are in folders of the test's own."""

    def __init__(self, **options):
        super().__init__(transports=None, **options)

    def runtime_folder(self, name):
        folder = self.path("run-" + name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return folder

    def environment(self, name, **more):
        return {"XDG_RUNTIME_DIR": self.runtime_folder(name), "RUNTIME_DIRECTORY": "", **more}

    def start_server(self, name, wait=True, extra=(), environment=None):
        return super().start_server(name, wait, extra, environment or self.environment(name))

    def coordinator_arguments(self, listen=None, storage=None):
        environment = self.environment("coordinator")
        return ["env", *(f"{key}={value}" for key, value in environment.items())] + super().coordinator_arguments(listen, storage)

    def sockets(self, name):
        """What is in the folder of its sockets, without locks."""
        folder = os.path.join(self.runtime_folder(name), "ramcore")
        return sorted(one for one in os.listdir(folder) if not one.endswith(".lock")) if os.path.isdir(folder) else []


def path_of(server):
    """The socket of a server."""
    return next(locator for locator in server.locators if locator.startswith("shm://"))[len("shm://"):]


def schemes(server):
    return [locator.split("://")[0] for locator in server.locators]


def used(status, role, server=0):
    return {one["transport"] for one in status["servers"][server]["open_sessions"] if one["peer_role"] == role}


class ListenTest(unittest.TestCase):
    def used_by_load(self, cluster, seconds_max=60):
        """Which transports a program with a session uses while it calls the servers."""
        load = cluster.start("rcbench", "--table", "t", "--records", 10, "--warmup-s", 0, "--duration-s", 60,
                             "--announce", "/dev/stderr")
        try:
            self.assertEqual(load.stderr.readline().strip(), "measuring")
            status = cluster.wait_status(lambda now: all(used(now, "client", i) for i in range(len(now["servers"]))),
                                         seconds_max)
            return set().union(*(used(status, "client", i) for i in range(len(status["servers"]))))
        finally:
            load.terminate()
            load.communicate()

    def check_load(self, cluster, used, what=""):
        """A program that calls the servers does so over `used`, and one that comes and goes says nothing about it."""
        done = cluster.run("ramcore", "get", "t", "key")
        self.assertEqual((done.stdout.rstrip("\n"), done.stderr), ("value", ""), what)
        self.assertEqual(self.used_by_load(cluster), {used}, what)

    def test_it_listens_over_tcp_and_shared_memory_and_is_called_over_the_better(self):
        with DefaultCluster(servers=2, replicas=1) as cluster:
            for name, server in cluster.servers.items():
                self.assertEqual(schemes(server)[:2], ["tcp", "shm"], server.locators)
                self.assertRegex(server.locators[0], r"^tcp://127\.0\.0\.1:[1-9]\d*$")
                self.assertEqual(os.path.dirname(path_of(server)), os.path.join(cluster.runtime_folder(name), "ramcore"))
                self.assertEqual([os.path.basename(path_of(server))], cluster.sockets(name))
                self.assertEqual(os.stat(os.path.dirname(path_of(server))).st_mode & 0o7777, 0o700)
                said = server.log()
                if "verbs" not in schemes(server):
                    self.assertRegex(said, r"(not listening over verbs|verbs: not used): .")
                self.assertNotIn("dpdk", said)  # nobody has named a port
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            status = cluster.wait_status(lambda now: now["health"] == "ok" and all(used(now, "server", i) for i in (0, 1)))
            for i in (0, 1):
                self.assertEqual(used(status, "server", i), {"shm"})
                self.assertEqual([one.split("://")[0] for one in status["servers"][i]["locators"]][:2], ["tcp", "shm"])
            self.check_load(cluster, "shm")
            cluster.stop()
            self.assertEqual([os.listdir(os.path.join(cluster.runtime_folder(name), "ramcore")) for name in ("s1", "s2")],
                             [[], []])

    def test_whoever_cannot_use_the_socket_goes_on_over_tcp(self):
        """As from another machine, where there is no such path; and from one where it is another server's."""
        with DefaultCluster(servers=2) as cluster:
            cluster.rc("create", "t", "--tablets", 2)
            cluster.rc("put", "t", "key", "value")
            first, second = (path_of(cluster.servers[name]) for name in ("s1", "s2"))
            os.rename(first, first + ".away")
            os.rename(second, second + ".away")
            self.check_load(cluster, "tcp", "no such path")
            os.rename(second + ".away", first)
            os.rename(first + ".away", second)
            self.check_load(cluster, "tcp", "another server's")
            for server in cluster.servers.values():
                self.assertNotIn("no session with", server.log())

    def test_another_user_goes_on_over_tcp(self):
        """Root may enter any folder, and asks as somebody else. Everybody else is kept out by the mode of the folder."""
        with DefaultCluster(servers=1) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            path = path_of(cluster.servers["s1"])
            as_other, mode = {}, 0
            if os.geteuid() == 0:
                nobody = pwd.getpwnam("nobody")
                as_other, mode = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}, 0o700
                if subprocess.run([tool("ramcore"), "--version"], check=False, capture_output=True, cwd="/", **as_other).returncode:
                    self.skipTest("another user cannot start the tools from where they are")
            os.chmod(os.path.dirname(path), mode)
            try:
                for _ in range(3):
                    done = subprocess.run(cluster.arguments("ramcore", "get", "t", "key"), capture_output=True, text=True,
                                          check=True, cwd="/", timeout=60, **as_other)
                    self.assertEqual((done.stdout.rstrip("\n"), done.stderr), ("value", ""))
                if os.geteuid() == 0:
                    # And the other way round: root could enter, and is another user than the socket's.
                    os.chown(path, nobody.pw_uid, nobody.pw_gid)
                self.check_load(cluster, "tcp")
            finally:
                os.chmod(os.path.dirname(path), 0o700)
            self.assertNotIn("refused", cluster.servers["s1"].log())

    def test_what_killed_processes_leave_is_in_nobodys_way(self):
        with DefaultCluster(servers=1) as cluster:
            environment = cluster.environment("s1")  # all in one folder
            living = cluster.start_server("living", environment=environment)
            for i in range(3):
                cluster.servers["s1"].kill()
                left = path_of(cluster.servers["s1"])
                self.assertIn(os.path.basename(left), cluster.sockets("s1"))
                again = cluster.start_server("s1", environment=environment)
                self.assertIn("removed 1 socket(s) of dead processes", again.log())
                self.assertFalse(os.path.exists(left) or os.path.exists(left + ".lock"), i)
                self.assertEqual(cluster.sockets("s1"), sorted(os.path.basename(path_of(one)) for one in (living, again)))
            for server in (living, cluster.servers["s1"]):
                with socket.socket(socket.AF_UNIX) as caller:
                    caller.connect(path_of(server))
            self.assertEqual(cluster.servers["s1"].stop(), 0)
            self.assertEqual(cluster.sockets("s1"), [os.path.basename(path_of(living))])

    def test_all_that_are_started_again_are_called_over_the_better(self):
        """By those that come first, too, who know a server's new id before that server does."""
        with DefaultCluster(servers=4, replicas=2) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            for _ in range(3):
                for server in cluster.servers.values():
                    server.kill()
                for name in list(cluster.servers):
                    cluster.start_server(name, wait=False)
                status = cluster.wait_status(lambda now: len(now["servers"]) == 4 and now["health"] == "ok"
                                             and all(one["answers"] for one in now["servers"]), 60)
                # (Who enlists has no id yet, and calls a coordinator that listens over tcp alone.)
                used = [one["transport"] for process in [status["coordinator"], *status["servers"]]
                        for one in process["open_sessions"] if one["peer_role"] == "server" and one["peer_id"] != "0"]
                self.assertGreater(len(used), 4)
                self.assertEqual(set(used), {"shm"})

    def test_without_a_folder_of_its_own_it_goes_on_without_shared_memory(self):
        with DefaultCluster(servers=0) as cluster:
            temporary = cluster.path("tmp")
            os.makedirs(temporary)
            environment = {"XDG_RUNTIME_DIR": "", "RUNTIME_DIRECTORY": "", "TMPDIR": temporary + "/"}
            folder = os.path.join(temporary, f"ramcore-{os.geteuid()}")
            os.symlink(cluster.runtime_folder("elsewhere"), folder)
            server = cluster.start_server("s1", environment=environment)
            self.assertNotIn("shm", schemes(server))
            self.assertRegex(server.log(),
                             rf"(?m)^\S+ warning .*not listening over shm: .*'{folder}' is a symbolic link; set XDG_RUNTIME_DIR")
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            self.check_load(cluster, "tcp")
            self.assertEqual(server.stop(), 0)

            os.unlink(folder)
            os.mkdir(folder)
            os.chmod(folder, 0o755)
            server = cluster.start_server("s2", environment=environment)
            self.assertNotIn("shm", schemes(server))
            self.assertRegex(server.log(), rf"(?m)^\S+ info .*not listening over shm: .*\(chmod 700 {folder}\)")
            os.chmod(folder, 0o700)
            self.assertEqual(os.path.dirname(path_of(cluster.start_server("s3", environment=environment))), folder)
            os.chmod(temporary, 0o777)
            server = cluster.start_server("s4", environment=environment)
            self.assertNotIn("shm", schemes(server))
            self.assertRegex(server.log(), rf"(?m)^\S+ info .*not listening over shm: .*'{temporary}' .* has no sticky bit")

    def test_the_folder_of_a_service_is_preferred(self):
        with DefaultCluster(servers=0) as cluster:
            service = cluster.runtime_folder("service")
            os.chmod(service, 0o755)
            server = cluster.start_server("s1", environment=cluster.environment("s1", RUNTIME_DIRECTORY=service))
            self.assertEqual(os.path.dirname(path_of(server)), service)
            self.assertRegex(os.path.basename(path_of(server)), SOCKET)
            os.chmod(service, 0o777)
            server = cluster.start_server("s2", environment=cluster.environment("s2", RUNTIME_DIRECTORY=service + "/"))
            self.assertEqual(os.path.dirname(path_of(server)), os.path.join(cluster.runtime_folder("s2"), "ramcore"))
            self.assertRegex(server.log(), rf"(?m)^\S+ info .*the socket is in {os.path.dirname(path_of(server))}: "
                                           rf"'{service}' can be written by others")

    def test_named_places_keep_their_meaning(self):
        with DefaultCluster(servers=0) as cluster:
            named = cluster.path("named.sock")
            server = cluster.start_server("s1", extra=["--listen", "shm://" + named, "--listen", "all://127.0.0.1:0"])
            self.assertEqual(path_of(server), named)
            self.assertEqual(schemes(server)[:2], ["tcp", "shm"])
            self.assertEqual(schemes(server).count("tcp"), 1)
            self.assertEqual(os.listdir(cluster.runtime_folder("s1")), [])
            listed = cluster.path("listed.sock")
            server = cluster.start_server("s3", environment=cluster.environment(
                "s3", RAMCORE_LISTEN=f"[shm://{listed},all://127.0.0.1:0]"))
            self.assertEqual((schemes(server)[:2], path_of(server)), (["tcp", "shm"], listed))
            alone = cluster.start_server("s2", extra=["--listen", "tcp://127.0.0.1:0"])
            self.assertEqual(schemes(alone), ["tcp"])
            self.assertNotIn("not listening over", alone.log())

    def test_what_tcp_cannot_have_is_an_error(self):
        with DefaultCluster(servers=0) as cluster:
            port = cluster.coordinator.locators[0].rsplit(":", 1)[1]
            for where, code, cause in ((f"all://127.0.0.1:{port}", 1, "another process uses the port"),
                                       ("all://10.0.0.1:0", 2, "will not listen at tcp://10.0.0.1:0 without a cluster secret"),
                                       ("all:///run/x", 2, "bad locator 'all:///run/x'"),
                                       ("all", 2, "write e.g. all://127.0.0.1:0"),
                                       ("all://127.0.0.1:99999", 2, "'99999' is no port: 1 to 65535, or 0 for any free one"),
                                       ("al://127.0.0.1:0", 2, "or all://127.0.0.1:0 for every transport"),
                                       ("dpdk://any@0", 2, "other machines reach the ports of DPDK; give --secret-file")):
                done = run(cluster.server_arguments("s1") + ["--listen", where], check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(cause, done.stderr)

    def test_a_coordinator_can_do_it_too(self):
        with DefaultCluster(servers=1) as cluster:
            cluster.servers["s1"].stop()
            cluster.coordinator.stop()
            cluster.start_coordinator(["all://127.0.0.1:0"])
            self.assertEqual(schemes(cluster.coordinator)[:2], ["tcp", "shm"])
            cluster.start_server("s1")
            for scheme in ("tcp", "shm"):
                self.assertEqual(cluster.rc("list", scheme=scheme), "")
            with self.assertRaisesRegex(Failed, "'all' is for --listen"):
                run([tool("ramcore"), "--coordinator", "all://127.0.0.1:11100", "list"])


if __name__ == "__main__":
    unittest.main()
