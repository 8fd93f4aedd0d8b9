#!/usr/bin/env python3
"""Addresses that people get wrong, where processes listen and what others are told of it: each mistake is told for what it is,
and at once where waiting cannot help. One row of the tables below is one test: exit code, message, time."""

import contextlib
import os
import re
import socket
import struct
import subprocess
import threading
import time
import unittest

from cluster_harness import Cluster, Daemon, Failed, run, tool

VOLATILE = ["--replicas", "0", "--storage-bytes", "0", "--memory", "64MiB"]
SECRET = "the right secret of this cluster"
# Starting a process and preparing 64 MiB, on a machine that is busy with other tests. Waiting for a coordinator would take the
# 20 s of --timeout-ms below.
AT_ONCE_SECONDS = 8
PATIENT_MS = 20000

HANDSHAKE_MAGIC = b"RCHANDSH"
CHALLENGE, REFUSAL = 2, 5


class Listener:
    """A port at which somebody answers who is no coordinator: `answer(connection)`."""

    def __init__(self, answer):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.locator = f"tcp://127.0.0.1:{self.socket.getsockname()[1]}"
        self.answer = answer
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection, contextlib.suppress(OSError):
            self.answer(connection)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def speak_another_version(connection):
    """As the handshake of every version: docs/transport.md."""
    connection.recv(4096)
    connection.sendall(HANDSHAKE_MAGIC + struct.pack("<IHBBH6x", 24, 999, REFUSAL, 0, 1))
    connection.recv(4096)


def speak_http(connection):
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.recv(4096)


def say_nothing(connection):
    while connection.recv(4096):
        pass


def hang_up(connection):
    connection.recv(4096)


# Namespaces of the kernel: what a test changes there nobody else sees.
def can_unshare():
    return subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True, check=False).returncode == 0


def with_names(hosts_file, switch_file):
    """In front of a command line: names are looked up in `hosts_file`, in the order of `switch_file`."""
    mounts = f"mount --bind {hosts_file} /etc/hosts && mount --bind {switch_file} /etc/nsswitch.conf"
    return ["unshare", "--mount", "sh", "-c", mounts + ' && exec "$@"', "sh"]


class Row:
    """What every tool that gets `coordinator(test)` says, and every server that enlists there.

    `ends`: waiting does not help, so tools and servers end at once, with exit code 1. Else tools end with their timeout and
    servers go on."""

    def __init__(self, name, coordinator, cause, remedy, ends, flags=None, names=False):
        self.name = name
        self.coordinator = coordinator
        self.cause = cause
        self.remedy = remedy
        self.ends = ends
        self.flags = flags or (lambda test: ["--cluster", "secured", "--secret-file", test.cluster.secret_file])
        self.names = names


REFUSES = r"the coordinator at tcp://127\.0\.0\.1:\d+ refuses this (client|server): "
ROWS = [
    Row("name_that_is_unknown", lambda test: "tcp://nowhere.test:11100",
        r"no coordinator at tcp://nowhere\.test:\d+: host 'nowhere\.test' is unknown", r"correct it", True, names=True),
    Row("name_service_that_is_away", lambda test: "tcp://nowhere.test:11100",
        r"no coordinator answers at tcp://nowhere\.test:11100: host 'nowhere\.test' cannot be looked up",
        r"check the name service", False, names="away"),
    Row("port_where_nobody_listens", lambda test: test.free_locator,
        r"no coordinator answers at tcp://127\.0\.0\.1:\d+: connection refused", r"check that it runs and listens there", False),
    Row("port_of_a_server", lambda test: test.cluster.servers["s1"].locators[0],
        r"no coordinator at tcp://127\.0\.0\.1:\d+: a server listens there", r"name the locator of the coordinator", True),
    Row("wrong_secret", lambda test: test.cluster.coordinator_locator(), REFUSES + "wrong cluster secret",
        r"give both the same file", True,
        flags=lambda test: ["--cluster", "secured", "--secret-file", test.wrong_secret]),
    Row("no_secret", lambda test: test.cluster.coordinator_locator(), REFUSES + "wrong cluster secret",
        r"give both the same file", True, flags=lambda test: ["--cluster", "secured"]),
    Row("wrong_cluster_name", lambda test: test.cluster.coordinator_locator(),
        REFUSES + "the peer belongs to a cluster of another name", r"give both the same", True,
        flags=lambda test: ["--cluster", "another", "--secret-file", test.cluster.secret_file]),
    Row("another_version", lambda test: test.another_version.locator,
        REFUSES + r"the peer speaks protocol version 999, this process \d+", r"run the same release on both sides", True),
    Row("port_of_another_program", lambda test: test.http.locator, REFUSES + r"bad handshake: its first bytes are no handshake",
        r"check that a Ramcore process listens there", True),
    Row("port_of_a_program_that_says_nothing", lambda test: test.silent.locator,
        r"no coordinator answers at tcp://127\.0\.0\.1:\d+: no answer in time", r"check that it runs there", False),
    Row("port_of_a_program_that_hangs_up", lambda test: test.hanging_up.locator,
        r"no coordinator answers at tcp://127\.0\.0\.1:\d+: it ended the connection during the handshake",
        r"check that a Ramcore process listens there", False),
]
TOOLS = (("ramcore", ["list"]), ("rcmigrate", ["list"]), ("rcbench", ["--table", "t"]))


class Mistake:
    """Of one command line that cannot work whatever the cluster does: it ends at once."""

    def __init__(self, name, arguments, cause, remedy, code=2):
        self.name = name
        self.arguments = arguments
        self.cause = cause
        self.remedy = remedy
        self.code = code


def server(test, *arguments, coordinator=None, level="error"):
    return [tool("ramcore-server"), "--coordinator", coordinator or test.cluster.coordinator_locator(), "--cluster", "secured",
            "--secret-file", test.cluster.secret_file, "--log-level", level, *VOLATILE, *arguments]


MISTAKES = [
    Mistake("advertise_is_no_locator", lambda test: server(test, "--advertise", "host"), r"--advertise: bad locator 'host'",
            r"tcp://"),
    Mistake("advertise_every_address", lambda test: server(test, "--advertise", "tcp://0.0.0.0:0"),
            r"--advertise tcp://0\.0\.0\.0:0: means every address of a machine", r"name one that others reach"),
    Mistake("advertise_every_address_of_ipv6", lambda test: server(test, "--advertise", "tcp://[::]:0"),
            r"--advertise tcp://\[::\]:0: means every address of a machine", r"name one that others reach"),
    Mistake("advertise_a_group", lambda test: server(test, "--advertise", "tcp://224.0.0.1:0"),
            r"--advertise tcp://224\.0\.0\.1:0: is the address of no single machine", r"name one that others reach"),
    Mistake("advertise_all", lambda test: server(test, "--advertise", "all://10.0.0.1:0"),
            r"--advertise: 'all://10\.0\.0\.1:0'", r"name each transport, tcp://HOST:0"),
    Mistake("advertise_shared_memory", lambda test: server(test, "--advertise", "shm:///run/x"),
            r"--advertise shm:///run/x: others reach what is listened at over shm only as it is", r"name locators of tcp"),
    Mistake("advertise_what_is_not_listened_at",
            lambda test: server(test, "--listen", f"shm://{test.cluster.path('x.sock')}", "--advertise", "tcp://10.0.0.1:0"),
            r"--advertise tcp://10\.0\.0\.1:0: this process does not listen over tcp", r"add that to --listen"),
    Mistake("advertise_one_port_of_two",
            lambda test: server(test, "--listen", "tcp://127.0.0.1:0", "--listen", "tcp://127.0.0.2:0", "--advertise",
                                "tcp://10.0.0.1:0"),
            r"--advertise tcp://10\.0\.0\.1:0: port 0 means the one that is listened at, and there are several", r"name one"),
    Mistake("every_address_without_a_secret",
            lambda test: [tool("ramcore-server"), "--listen", "all://[::]:0", *VOLATILE],
            r"will not listen at tcp://\[::\]:0 without a cluster secret", r"give --secret-file, or listen at 127\.0\.0\.1"),
    # TEST-NET-2: nobody has it, and nothing is sent there before the server knows where it is reached.
    Mistake("this_machine_only_for_a_coordinator_elsewhere",
            lambda test: server(test, "--listen", "tcp://127.0.0.1:0", coordinator="tcp://198.51.100.7:11100"),
            r"nobody would reach this server: tcp://127\.0\.0\.1:\d+ means this machine only, and the coordinator at "
            r"tcp://198\.51\.100\.7:11100 is on another one", r"--listen all://ADDRESS:0, or name one with --advertise"),
    Mistake("name_of_this_machine_only_for_a_coordinator_elsewhere",
            lambda test: server(test, "--listen", "tcp://localhost:0", coordinator="tcp://198.51.100.7:11100"),
            r"tcp://localhost:\d+ means this machine only", r"--advertise"),
    Mistake("second_coordinator_is_no_locator",
            lambda test: server(test, coordinator="tcp://127.0.0.1:1,nonsense"), r"bad locator 'nonsense'", r"tcp://"),
]


class AddressesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=1, name="secured", secret=SECRET, transports=("tcp",))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.wrong_secret = cls.write("wrong-secret", "some other secret altogether\n", 0o600)
        for name, answer in (("another_version", speak_another_version), ("http", speak_http), ("silent", say_nothing),
                             ("hanging_up", hang_up)):
            setattr(cls, name, Listener(answer))
            cls.addClassCleanup(getattr(cls, name).close)
        # Nobody listens there as long as this test has it.
        reserved = socket.socket()
        reserved.bind(("127.0.0.1", 0))
        cls.addClassCleanup(reserved.close)
        cls.free_locator = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        cls.switch_file = cls.write("nsswitch", "hosts: files\n")
        cls.hosts_file = cls.write("hosts", "127.0.0.1 localhost\n")

    @classmethod
    def write(cls, name, content, mode=0o644):
        path = cls.cluster.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(path, mode)
        return path

    def command(self, row, program, *arguments):
        command = [tool(program), "--coordinator", row.coordinator(self), *row.flags(self), *arguments]
        if not row.names:
            return command
        if not can_unshare():
            self.skipTest("namespaces of the kernel are root's")
        switch = self.switch_file
        if row.names == "away":
            # In a network of its own nobody can be asked.
            switch = self.write("nsswitch-dns", "hosts: files dns\n")
            alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
            return alone + with_names(self.hosts_file, switch) + command
        return with_names(self.hosts_file, switch) + command

    def check_line(self, row, line):
        self.assertRegex(line, row.cause)
        self.assertRegex(line, row.remedy)

    def check_tool(self, row, program, arguments):
        timeout_ms = PATIENT_MS if row.ends else 3000
        began = time.monotonic()
        done = run(self.command(row, program, *arguments, "--timeout-ms", str(timeout_ms)), check=False)
        took = time.monotonic() - began
        said = f"exit code {done.returncode} after {took:.1f} s, stderr:\n{done.stderr}"
        self.assertEqual(done.returncode, 1, said)
        self.assertEqual(len(done.stderr.splitlines()), 1, said)
        self.check_line(row, done.stderr)
        self.assertLess(took, AT_ONCE_SECONDS if row.ends else 3 + AT_ONCE_SECONDS, said)
        if not row.ends:
            self.assertGreater(took, 1.5, "waiting may have helped; " + said)

    def check_server(self, row):
        arguments = ["--log-level", "error" if row.ends else "warning", *VOLATILE, "--listen", "tcp://127.0.0.1:0"]
        command = self.command(row, "ramcore-server", *arguments)
        if row.ends:
            began = time.monotonic()
            done = run(command, check=False)
            took = time.monotonic() - began
            said = f"exit code {done.returncode} after {took:.1f} s, stderr:\n{done.stderr}"
            self.assertEqual(done.returncode, 1, said)
            self.assertEqual(len(done.stderr.splitlines()), 1, said)
            self.check_line(row, done.stderr)
            self.assertLess(took, AT_ONCE_SECONDS, said)
            return
        waiting = Daemon(row.name, command, self.cluster.path(row.name + ".log"))
        waiting.wait_says("trying on", AT_ONCE_SECONDS)
        self.assertTrue(waiting.is_running())
        self.assertEqual(waiting.stop(), 0, waiting.log())
        lines = [line for line in waiting.log().splitlines() if "trying on" in line]
        self.check_line(row, lines[-1])
        self.assertLessEqual(len(lines), 2, waiting.log())  # once, not at each attempt

    def test_a_server_goes_on_while_the_name_of_the_coordinator_is_unknown(self):
        """A pod's name comes with the pod: unlike a person at a command line, a server waits for that."""
        row = next(one for one in ROWS if one.name == "name_that_is_unknown")
        hosts = self.write("hosts-later", "127.0.0.1 localhost\n")
        port = self.cluster.coordinator_locator().rsplit(":", 1)[1]
        if not can_unshare():
            self.skipTest("namespaces of the kernel are root's")
        command = with_names(hosts, self.switch_file) + server(self, "--name", "later", level="warning",
                                                               coordinator=f"tcp://nowhere.test:{port}")
        waiting = Daemon("later", command, self.cluster.path("later.log"))
        try:
            waiting.wait_says("trying on", AT_ONCE_SECONDS)
            self.check_line(row, waiting.log())
            self.write("hosts-later", "127.0.0.1 localhost nowhere.test\n")
            waiting.wait_ready()
        finally:
            code = waiting.stop()
        self.assertEqual(code, 0)

    def expect(self, mistake):
        began = time.monotonic()
        done = run(mistake.arguments(self), check=False)
        took = time.monotonic() - began
        said = f"exit code {done.returncode} after {took:.1f} s, stderr:\n{done.stderr}"
        self.assertEqual(done.returncode, mistake.code, said)
        self.assertEqual(len(done.stderr.splitlines()), 1, said)
        self.assertRegex(done.stderr, mistake.cause, said)
        self.assertRegex(done.stderr, mistake.remedy, said)
        self.assertLess(took, AT_ONCE_SECONDS, said)

    def test_metrics_over_ipv6_are_told_for_what_they_are(self):
        """(Where the HTTP library has IPv6 they are served.)"""
        began = Daemon("ipv6", server(self, "--metrics", "[::1]:0", "--name", "ipv6"), self.cluster.path("ipv6.log"))
        try:
            began.wait_ready()
        except Failed as failed:
            self.assertRegex(str(failed), r"ended with 2(?s:.*)cannot serve metrics at \[::1\]:0: the HTTP library of this build has "
                                          r"no IPv6; give an IPv4 address with --metrics, for example 127\.0\.0\.1:0")
        finally:
            began.stop()


class SeveralCoordinatorsTest(unittest.TestCase):
    """The first that answers as a coordinator is used; the others are tried when it is away."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(servers=1, transports=("tcp",))
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.cluster.rc("create", "t")
        reserved = socket.socket()
        reserved.bind(("127.0.0.1", 0))
        cls.addClassCleanup(reserved.close)
        cls.nowhere = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"

    def lists(self):
        """Lists in which the second or the third is it."""
        right, of_server = self.cluster.coordinator_locator(), self.cluster.servers["s1"].locators[0]
        return ([self.nowhere, right], [of_server, right], [self.nowhere, of_server, right], [right, self.nowhere])

    def check_tool(self, program, *arguments):
        for locators in self.lists():
            repeated = [word for locator in locators for word in ("--coordinator", locator)]
            for flags in (repeated, ["--coordinator", ",".join(locators)]):
                run([tool(program), *flags, "--cluster", "test", *arguments])

    def test_ramcore_and_the_library(self):
        self.check_tool("ramcore", "list")

    def test_rcmigrate(self):
        self.check_tool("rcmigrate", "list")

    def test_rcbench(self):
        self.check_tool("rcbench", "--records", "10", "--operations", "10", "--warmup-s", "0")

    def test_environment_and_configuration_file(self):
        locators = [self.nowhere, self.cluster.coordinator_locator()]
        config = self.cluster.path("coordinators.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'coordinator = ["{locators[0]}", "{locators[1]}"]\n')
        environment = {**os.environ, "RAMCORE_COORDINATOR": ",".join(locators)}
        for program in ("ramcore", "rcmigrate"):
            subprocess.run([tool(program), "--cluster", "test", "list"], env=environment, check=True, capture_output=True)
        run([tool("ramcore"), "--config", config, "--cluster", "test", "list"])
        for flags, variables in ((["--config", config], os.environ), ([], environment)):
            server_of = [tool("ramcore-server"), "--cluster", "test", "--log-level", "error", *VOLATILE, *flags]
            one = Daemon("s2", ["env", f"RAMCORE_COORDINATOR={variables.get('RAMCORE_COORDINATOR', '')}", *server_of],
                         self.cluster.path("s2.log"))
            try:
                one.wait_ready()
            finally:
                self.assertEqual(one.stop(), 0, one.log())

    def test_none_of_them_is_told_one_by_one(self):
        of_server = self.cluster.servers["s1"].locators[0]
        done = run([tool("ramcore"), "--coordinator", f"{self.nowhere},{of_server}", "--cluster", "test", "--timeout-ms", "1500",
                    "list"], check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf"no coordinator answers at {self.nowhere}: connection refused.*"
                                      rf"no coordinator at {of_server}: a server listens there")

    def test_a_server_enlists_at_the_one_that_is_there_and_follows_it(self):
        with Cluster(servers=0, transports=("tcp",)) as cluster:
            first = cluster.coordinator_locator()
            places = ",".join([self.nowhere, self.cluster.servers["s1"].locators[0], first, second_place(first)])
            one = Daemon("s1", cluster.server_arguments("s1", coordinator=places), cluster.path("s1.log"))
            cluster.servers["s1"] = one
            one.wait_ready()
            client = [tool("ramcore"), "--coordinator", places, "--cluster", "test"]
            run([*client, "create", "t"])
            run([*client, "put", "t", "key", "value"])
            cluster.coordinator.stop()
            cluster.start_coordinator([second_place(first)])
            one.wait_says("the coordinator answers again", 10)
            self.assertEqual(run([*client, "get", "t", "key"]).stdout.rstrip("\n"), "value")
            self.assertTrue(one.is_running())


def second_place(locator):
    """The same port at another address of this machine."""
    return locator.replace("127.0.0.1", "127.0.0.2")


class CoordinatorThatMovesTest(unittest.TestCase):
    """A coordinator comes back under another address of the same name, as pods do."""

    def test_names_are_looked_up_again(self):
        if not can_unshare():
            self.skipTest("namespaces of the kernel are root's")
        with Cluster(servers=0, transports=("tcp",)) as cluster:
            hosts, switch = cluster.path("hosts"), cluster.path("nsswitch")

            def enter(address):
                with open(hosts, "w", encoding="utf-8") as file:
                    file.write(f"127.0.0.1 localhost\n{address} coordinator.test\n")

            enter("127.0.0.1")
            with open(switch, "w", encoding="utf-8") as file:
                file.write("hosts: files\n")
            first = cluster.coordinator_locator()
            named = first.replace("127.0.0.1", "coordinator.test")
            names = with_names(hosts, switch)
            one = Daemon("s1", names + cluster.server_arguments("s1", coordinator=named), cluster.path("s1.log"))
            cluster.servers["s1"] = one
            one.wait_ready()
            client = [*names, tool("ramcore"), "--coordinator", named, "--cluster", "test"]
            run([*client, "create", "t"])
            run([*client, "put", "t", "key", "value"])
            # A client that lives through it: it renews its lease and asks where the tablet is.
            load = subprocess.Popen([*names, tool("rcbench"), "--coordinator", named, "--cluster", "test", "--records", "100",
                                     "--warmup-s", "0", "--duration-s", "4", "--json", "--announce", "/dev/stderr"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(load.stderr.readline().strip(), "measuring")
            cluster.coordinator.stop()
            one.wait_says("cannot renew the lease", 10)
            enter("127.0.0.2")
            cluster.start_coordinator([second_place(first)])
            one.wait_says("the coordinator answers again", 10)
            _, said = load.communicate(timeout=60)
            self.assertEqual(load.returncode, 0, said)
            self.assertEqual(run([*client, "get", "t", "key"]).stdout.rstrip("\n"), "value")
            self.assertNotIn("enlist", one.log())


class Network:
    """Machines, each a network namespace with one wire to a bridge: traffic that nobody else sees."""

    BRIDGE = "rcad"

    def __init__(self, *machines):
        self.names = {machine: f"rcad-{os.getpid()}-{machine}" for machine in machines}
        self.address = {machine: f"10.77.9.{i + 1}" for i, machine in enumerate(machines)}

    def __enter__(self):
        try:
            self.switch = f"rcad-{os.getpid()}-switch"
            run(["ip", "netns", "add", self.switch])
            run(self.at_switch("ip", "link", "add", self.BRIDGE, "type", "bridge"))
            run(self.at_switch("ip", "link", "set", self.BRIDGE, "up"))
            for machine, name in self.names.items():
                run(["ip", "netns", "add", name])
                run(self.at_switch("ip", "link", "add", machine, "type", "veth", "peer", "name", "eth0", "netns", name))
                run(self.at_switch("ip", "link", "set", machine, "master", self.BRIDGE, "up"))
                self.run(machine, "ip", "address", "add", self.address[machine] + "/24", "dev", "eth0")
                self.run(machine, "ip", "link", "set", "eth0", "up")
                self.run(machine, "ip", "link", "set", "lo", "up")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for name in [*self.names.values(), self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def at_switch(self, *command):
        return ["ip", "netns", "exec", self.switch, *command]

    def at(self, machine, *command):
        return ["ip", "netns", "exec", self.names[machine], *command]

    def run(self, machine, *command, **options):
        return run(self.at(machine, *command), **options)


class MachinesCluster(Cluster):
    """Each process on a machine of its own; the coordinator at every address of its machine."""

    def __init__(self, network, **options):
        super().__init__(secret=SECRET, transports=("tcp",), **options)
        self.network = network
        self.named = None

    def process_prefix(self, name):
        names = [] if self.named is None else with_names(self.path("hosts"), self.path("nsswitch"))
        return self.network.at(name) + names

    def enter_name(self, host, address):
        """The one name that all processes know which are started from now on."""
        self.named = host
        for file_name, content in (("hosts", f"127.0.0.1 localhost\n{address} {host}\n"), ("nsswitch", "hosts: files\n")):
            with open(self.path(file_name), "w", encoding="utf-8") as file:
                file.write(content)

    def listen_locators(self, name):
        return ["tcp://0.0.0.0:11100"] if name == "coordinator" else ["tcp://[::]:11101"]

    def coordinator_locator(self, scheme=None):
        return f"tcp://{self.network.address['coordinator']}:11100"


@unittest.skipUnless(can_unshare(), "network namespaces are root's")
class MachinesTest(unittest.TestCase):
    def check_use(self, cluster):
        cluster.rc("create", "t", "--tablets", "4")
        cluster.rc("put", "t", "key", "value")
        self.assertEqual(cluster.rc("get", "t", "key").rstrip("\n"), "value")

    def tcp_of(self, cluster):
        return [[one for one in server["locators"] if one.startswith("tcp")] for server in cluster.status()["servers"]]

    def test_every_address_is_told_as_the_only_one_of_the_machine(self):
        with Network("coordinator", "s1", "s2", "tool") as network, MachinesCluster(network, servers=2) as cluster:
            self.assertEqual(sorted(self.tcp_of(cluster)),
                             [[f"tcp://{network.address[name]}:11101"] for name in ("s1", "s2")])
            self.assertEqual(cluster.coordinator.locators, [f"tcp://{network.address['coordinator']}:11100"])
            self.assertIn("advertising tcp://10.77.9.2:11101 for tcp://[::]:11101: this machine has no other address",
                          cluster.servers["s1"].log())
            self.check_use(cluster)

    def test_what_is_advertised_is_used_in_place_of_what_is_listened_at(self):
        """A machine with several addresses, of which others reach one: its name, and another port that leads there."""
        with Network("coordinator", "s1", "tool") as network, MachinesCluster(network, servers=0) as cluster:
            network.run("s1", "ip", "address", "add", "10.99.0.1/24", "dev", "lo")
            done = run([*cluster.server_arguments("s1")], check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"cannot tell others where tcp://\[::\]:11101 is: this machine has several addresses "
                                          r"\(.*10\.77\.9\.2.*\); name the one that others reach: --advertise tcp://[0-9.]+:0")
            cluster.enter_name("one.test", "10.77.9.2")
            cluster.coordinator.stop()
            cluster.start_coordinator(["tcp://0.0.0.0:11100"])
            cluster.start_server("s1", extra=["--advertise", "tcp://one.test:0"])
            self.assertEqual(self.tcp_of(cluster), [["tcp://one.test:11101"]])
            self.assertEqual(cluster.servers["s1"].locators[0], "tcp://one.test:11101")
            self.check_use(cluster)

    def test_a_coordinator_that_went_dark_is_found_under_its_new_address(self):
        """A pod that is gone says nothing: no connection to its old address is ever refused or closed."""
        with Network("coordinator", "s1", "tool") as network, MachinesCluster(network, servers=0) as cluster:
            cluster.enter_name("coordinator.test", "10.77.9.1")
            cluster.coordinator_locator = lambda scheme=None: "tcp://coordinator.test:11100"
            server = cluster.start_server("s1")
            self.check_use(cluster)
            network.run("coordinator", "ip", "link", "set", "eth0", "down")
            cluster.coordinator.kill()
            for command in (["address", "flush", "dev", "eth0"], ["address", "add", "10.77.9.9/24", "dev", "eth0"],
                            ["link", "set", "eth0", "up"]):
                network.run("coordinator", "ip", *command)
            cluster.enter_name("coordinator.test", "10.77.9.9")
            cluster.start_coordinator(["tcp://0.0.0.0:11100"])
            server.wait_says("the coordinator answers again", 9)  # before it is declared dead
            self.assertEqual(cluster.rc("get", "t", "key").rstrip("\n"), "value")
            self.assertNotIn("enlist", server.log())

    def test_a_port_that_leads_elsewhere(self):
        """What a container does that maps a port."""
        with Network("coordinator", "s1", "tool") as network, MachinesCluster(network, servers=0) as cluster:
            mapper = Mapper(network, "s1", 7777, 11101)
            try:
                cluster.start_server("s1", extra=["--advertise", "tcp://10.77.9.2:7777"])
                self.assertEqual(self.tcp_of(cluster), [["tcp://10.77.9.2:7777"]])
                self.check_use(cluster)
                self.assertGreater(mapper.count(), 0)
            finally:
                mapper.close()

    def test_an_address_of_this_machine_only_is_not_told_to_others(self):
        with Network("coordinator", "s1", "tool") as network, MachinesCluster(network, servers=0) as cluster:
            server = cluster.start_server("s1", extra=["--listen", "tcp://127.0.0.1:11109"])
            self.assertEqual(self.tcp_of(cluster), [["tcp://10.77.9.2:11101"]])
            self.assertRegex(server.log(), r"(?m)^\S+ warning .*not advertised: tcp://127\.0\.0\.1:11109 means this machine only, "
                                           r"and the coordinator at tcp://10\.77\.9\.1:11100 is on another one; .*--advertise")
            self.check_use(cluster)

    def test_loopback_beside_a_coordinator_at_this_machines_address_is_warned_of(self):
        """All may be on this machine: then it works as it is."""
        with Network("coordinator") as network, MachinesCluster(network, servers=0) as cluster:
            cluster.process_prefix = lambda name, prefix=cluster.process_prefix: prefix("coordinator")
            cluster.listen_locators = lambda name: ["tcp://127.0.0.1:11101"]
            server = cluster.start_server("s1")
            self.assertRegex(server.log(), r"(?m)^\S+ warning .*advertising tcp://127\.0\.0\.1:11101, which means this machine only")
            self.check_use(cluster)

    def test_one_machine_on_loopback_says_nothing_of_it(self):
        with Cluster(servers=1) as cluster:
            self.assertNotIn("this machine only", cluster.servers["s1"].log())
            self.assertNotIn("advertis", cluster.servers["s1"].log())


class Mapper:
    """Takes connections to one port of a machine to another one."""

    PROGRAM = """
import socket, sys, threading
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for one in (a, b):
        try: one.shutdown(socket.SHUT_RDWR)
        except OSError: pass
port, to = int(sys.argv[1]), int(sys.argv[2])
listener = socket.create_server(("0.0.0.0", port))
print("ready", flush=True)
while True:
    near, _ = listener.accept()
    print("taken", flush=True)
    far = socket.create_connection(("127.0.0.1", to))
    for pair in ((near, far), (far, near)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""

    def __init__(self, network, machine, port, to):
        self.process = subprocess.Popen(network.at(machine, "python3", "-c", self.PROGRAM, str(port), str(to)),
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def count(self):
        """Of connections so far; ends it."""
        self.process.kill()
        return self.process.stdout.read().count("taken")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


for row in ROWS:
    for program, arguments in TOOLS:
        setattr(AddressesTest, f"test_{row.name}_for_{program}",
                lambda self, row=row, program=program, arguments=arguments: self.check_tool(row, program, arguments))
    if row.name != "name_that_is_unknown":
        setattr(AddressesTest, f"test_{row.name}_for_a_server", lambda self, row=row: self.check_server(row))
for mistake in MISTAKES:
    setattr(AddressesTest, "test_" + mistake.name, lambda self, mistake=mistake: self.expect(mistake))

if __name__ == "__main__":
    unittest.main(verbosity=2)
