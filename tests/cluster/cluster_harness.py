"""Starts clusters of real processes for tests: a coordinator and servers on free ports, in a temporary directory.

    with Cluster(servers=2) as cluster:
        cluster.rc("create", "t")

The processes' output is collected in cluster.directory; it is removed when the test passed and named when it failed.
Nothing here sleeps where there is an event: readiness is the line that a process prints, an end is the end of the process.
"""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BIN_DIR = os.path.abspath(os.environ.get("RAMCORE_BIN_DIR") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "bin"))
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30
COMMAND_SECONDS_MAX = 120
# Reads what servers leave on their disks, with none of the product's code.
JUDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "frames", "judge_directory")
JUDGE_SECONDS_MAX = 300
MEMORY = "/dev/shm"
NOTHING_TO_JUDGE = 3  # and nothing was told; 2 is a mistake of ours in how it is called
READS = {"export", "get", "status", "inspect"}  # commands of `ramcore` that change no object; nor does a move


@contextlib.contextmanager
def programs_of(bin_dir):
    """What is started meanwhile is of another build."""
    global BIN_DIR
    own, BIN_DIR = BIN_DIR, bin_dir
    try:
        yield
    finally:
        BIN_DIR = own


def tool(name):
    """The path of one of the executables."""
    path = os.path.join(BIN_DIR, name)
    if not os.path.exists(path):
        sys.exit(f"{path} is missing; build the target 'tools' and set RAMCORE_BIN_DIR")
    return path


class Failed(Exception):
    """A process did not do what a test needs it to do."""


class Daemon:
    """A coordinator or server. Stdout carries the ready line only; stderr goes to a file, through a pipe of ours, so
    that a test can wait for what it says."""

    def __init__(self, name, arguments, log_path):
        self.name = name
        self.arguments = arguments
        self.log_path = log_path
        self.locators = []
        self._said = ""
        self._says = threading.Condition()
        self.process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self):
        with open(self.log_path, "ab", buffering=0) as file:
            while piece := os.read(self.process.stderr.fileno(), 65536):
                file.write(piece)
                with self._says:
                    self._said += piece.decode(errors="replace")
                    self._says.notify_all()

    def wait_says(self, text, seconds_max=10):
        """Waits until `text` has come on stderr."""
        with self._says:
            if not self._says.wait_for(lambda: text in self._said, seconds_max):
                raise Failed(f"{self.name} did not say '{text}' within {seconds_max} s\n{self._said[-4000:]}")

    def wait_matches(self, pattern, seconds_max=10):
        """The first text on stderr that matches, once it is there; None: it does not come."""
        with self._says:
            found = self._says.wait_for(lambda: re.search(pattern, self._said), seconds_max)
        return found.group() if found else None

    def said(self):
        """All that has come on stderr."""
        with self._says:
            return self._said

    def wait_until_said(self, condition, seconds_max=10):
        """Whether all that has come on stderr meets the condition in time."""
        with self._says:
            return self._says.wait_for(lambda: condition(self._said), seconds_max)

    def wait_ready(self):
        """Waits for `ready <locators>`; an end of the process instead is a failure with its last words."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        line = b""
        stream = self.process.stdout.fileno()
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise Failed(f"{self.name} is not ready after {READY_SECONDS_MAX} s\n{self.log()}")
            piece = os.read(stream, 4096)
            if not piece:
                raise Failed(f"{self.name} ended with {self.process.wait()} before it was ready\n{self.log()}")
            line += piece
        words = line.decode().split()
        if not words or words[0] != "ready" or len(words) < 2:
            raise Failed(f"{self.name} printed '{line.decode().strip()}' and no ready line")
        self.locators = words[1:]

    def log(self):
        if not self.is_running():
            self._listener.join()  # everything is in the file then
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-40:])

    def is_running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """SIGKILL, and waits for the end."""
        self.process.kill()
        self.process.wait()
        self._close()

    def stop(self):
        """SIGTERM; gives the exit code."""
        if self.is_running():
            self.process.terminate()
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name} did not stop within {STOP_SECONDS_MAX} s of SIGTERM\n{self.log()}") from None
        self._close()
        return code

    def _close(self):
        self._listener.join()
        self.process.stdout.close()
        self.process.stderr.close()


class Cluster:
    """One coordinator and some servers. `transports=None`: the servers are not told where to listen."""

    def __init__(self, servers=2, memory="96MiB", name="test", secret=None, transports=("tcp", "shm"), autostart=True,
                 replicas=0, storage="512MiB", death_after_ms=None, together_ms=None, min_replicas=None,
                 coordinator_in_memory=True):
        self.directory = tempfile.mkdtemp(prefix="ramcore-test-")
        # The coordinator waits for its disk, and that of a virtual machine may stand still for half a minute. Few tests
        # are about that disk; those have it.
        self.memory_directory = None
        if coordinator_in_memory and os.access(MEMORY, os.W_OK):
            self.memory_directory = tempfile.mkdtemp(prefix="ramcore-test-", dir=MEMORY)
            os.symlink(self.memory_directory, self.path("coordinator"))
        self.name = name
        self.memory = memory
        self.transports = transports
        self.replicas = replicas  # 0: servers keep nothing anywhere
        self.min_replicas = min_replicas  # None: as the server has it
        self.storage = storage
        # Tests stop servers for seconds, and without replicas nobody can take their place.
        self.death_after_ms = death_after_ms or (3000 if replicas else 10000)
        self.together_ms = together_ms  # None: as the coordinator has it
        # Whether all that was acknowledged has to be in the directories in the end, which is judged then
        # (tests/frames/judge_directory). Tests that take it away say so here.
        self.leaves_everything = replicas > 0
        self.journals = {}  # file by table: of those who note their calls
        self.exported = {}  # file by table: what was there when nobody changed anything any more
        self.unchanged = {}  # file by table, as of an export: objects that nobody changes, beside those of a journal
        self.secret_file = None
        if secret is not None:
            self.secret_file = self.path("secret")
            with open(self.secret_file, "w", encoding="utf-8") as file:
                file.write(secret + "\n")
            os.chmod(self.secret_file, 0o600)
        self.coordinator = None
        self.servers = {}
        self._planned_servers = servers if autostart else 0
        self._autostart = autostart

    def __enter__(self):
        try:
            if self._autostart:
                self.start_coordinator()
                # All at once, then wait for all: servers touch their whole memory before they are ready.
                started = [self.start_server(f"s{i + 1}", wait=False) for i in range(self._planned_servers)]
                for server in started:
                    server.wait_ready()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, traceback):
        daemons = [daemon for daemon in [*self.servers.values(), self.coordinator] if daemon]
        running = [daemon for daemon in daemons if daemon.is_running()]
        ended = [daemon for daemon in daemons if daemon not in running]
        try:
            # In order, so that sanitizers get to say what they found.
            codes = {daemon.name: daemon.stop() for daemon in running} if kind is None else {}
            for daemon in running:
                if codes.get(daemon.name):
                    raise Failed(f"{daemon.name} ended with {codes[daemon.name]}\n{daemon.log()}")
            for daemon in ended if kind is None else []:
                if daemon.process.returncode not in (0, -signal.SIGKILL):
                    raise Failed(f"{daemon.name} had ended with {daemon.process.returncode}\n{daemon.log()}")
            if kind is None and self.leaves_everything:
                self.judge_directories()
        except Failed:
            print(f"logs and data of the failed test: {self.directory}", file=sys.stderr)
            raise
        finally:
            for daemon in running:
                if daemon.is_running():
                    daemon.kill()
        if kind is None:
            shutil.rmtree(self.directory)
            if self.memory_directory:
                shutil.rmtree(self.memory_directory)
        else:
            print(f"logs and data of the failed test: {self.directory}", file=sys.stderr)

    def judge_directories(self):
        """Whether what is on the disks is what clients were told. All processes have ended."""
        told = [f"--journal={table}={path}" for table, path in self.journals.items()]
        told += [f"--export={table}={path}" for table, path in self.exported.items() if table not in self.journals]
        told += [f"--export={table}={path}" for table, path in self.unchanged.items()]
        done = run([JUDGE, self.directory, *told], check=False, timeout=JUDGE_SECONDS_MAX)
        if done.returncode != 0 and (told or done.returncode != NOTHING_TO_JUDGE):
            raise Failed(f"what the servers have left is not what clients were told:\n{done.stdout}{done.stderr}")
        # A table that was exported when it was empty has no keys.
        told_any = self.journals or any(os.path.getsize(path) for path in self.exported.values())
        if told_any and json.loads(done.stdout.splitlines()[0]).get("told keys", 0) == 0:
            raise Failed(f"of what clients were told no key was judged: {' '.join(told)}\n{done.stdout}{done.stderr}")

    def path(self, name):
        return os.path.join(self.directory, name)

    # --- daemons

    def security_flags(self):
        flags = ["--cluster", self.name]
        if self.secret_file:
            flags += ["--secret-file", self.secret_file]
        return flags

    def process_prefix(self, name):
        """What stands in front of a process's command line: for fabrics where each has a place of its own."""
        return []

    def process_flags(self, name):
        """Flags of that process alone."""
        return []

    def tool_name(self):
        """A name for a tool that is about to run, for the two above."""
        return "tool"

    def coordinator_arguments(self, listen=None, storage=None):
        arguments = self.process_prefix("coordinator") + [tool("ramcore-coordinator"), "--storage", storage or self.path("coordinator"),
                     "--death-after-ms", str(self.death_after_ms)] + self.security_flags() + self.process_flags("coordinator")
        if self.together_ms is not None:
            arguments += ["--silent-together-ms", str(self.together_ms)]
        for locator in listen or self.listen_locators("coordinator"):
            arguments += ["--listen", locator]
        return arguments

    def server_arguments(self, name, coordinator=None):
        arguments = self.process_prefix(name) + [tool("ramcore-server"), "--coordinator", coordinator or
                                                 self.coordinator_locator(), "--name", name, "--memory", self.memory]
        arguments += self.security_flags() + self.process_flags(name)
        arguments += ["--replicas", str(self.replicas), "--storage-bytes", self.storage if self.replicas else "0"]
        if self.min_replicas is not None:
            arguments += ["--min-replicas", str(self.min_replicas)]
        if self.replicas:
            arguments += ["--storage", self.path(name)]
        for locator in self.listen_locators(name):
            arguments += ["--listen", locator]
        return arguments

    def listen_locators(self, name):
        if self.transports is None:
            return ["tcp://127.0.0.1:0"] if name == "coordinator" else []
        # Machines with RDMA devices say where these are (tests/vm); servers take them in turn.
        rdma = os.environ.get("RDMA_IP1" if name.endswith(("1", "3")) else "RDMA_IP0")
        locators = {"tcp": "tcp://127.0.0.1:0", "shm": f"shm://{self.path(name + '.sock')}", "verbs": f"verbs://{rdma}:0", "dpdk": "dpdk://any@0"}
        return [locators[transport] for transport in self.transports]

    def start_coordinator(self, listen=None):
        """On free ports the first time; again at the same place after kill() or stop()."""
        if listen is None and self.coordinator is not None:
            listen = self.coordinator.locators
        self.coordinator = Daemon("coordinator", self.coordinator_arguments(listen), self.path("coordinator.log"))
        self.coordinator.wait_ready()
        return self.coordinator

    def start_server(self, name, wait=True, extra=(), environment=None):
        """`environment`: what it has besides ours."""
        prefix = ["env", *(f"{key}={value}" for key, value in environment.items())] if environment else []
        server = Daemon(name, prefix + self.server_arguments(name) + list(extra), self.path(name + ".log"))
        self.servers[name] = server
        if wait:
            server.wait_ready()
        return server

    def coordinator_locator(self, scheme=None):
        scheme = scheme or (self.transports or ("tcp",))[0]
        for locator in self.coordinator.locators:
            if locator.startswith(scheme):
                return locator
        raise Failed(f"the coordinator has no {scheme} locator: {self.coordinator.locators}")

    def stop(self):
        """Stops everything in order; gives {name: exit code}."""
        codes = {name: server.stop() for name, server in self.servers.items()}
        codes["coordinator"] = self.coordinator.stop()
        return codes

    # --- tools

    def arguments(self, name, *arguments, scheme=None):
        if may_change_objects(name, arguments):
            self.exported.clear()
        place = self.tool_name()
        return (self.process_prefix(place) + [tool(name), "--coordinator", self.coordinator_locator(scheme)] +
                self.security_flags() + self.process_flags(place) + [str(argument) for argument in arguments])

    def run(self, name, *arguments, stdin=None, check=True, scheme=None, timeout=COMMAND_SECONDS_MAX):
        """Runs a tool against this cluster; gives subprocess.CompletedProcess with text output."""
        return run(self.arguments(name, *arguments, scheme=scheme), stdin=stdin, check=check, timeout=timeout)

    def start(self, name, *arguments, scheme=None):
        """A tool in the background, with pipes; the caller waits for it."""
        return subprocess.Popen(self.arguments(name, *arguments, scheme=scheme), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def load_command(self, program):
        """The beginning of the command line of a program that calls this cluster, beside tools."""
        self.exported.clear()
        return [program] + ["--coordinator", self.coordinator_locator()] + self.security_flags()

    def rc(self, *arguments, **options):
        """`ramcore`; gives its standard output."""
        return self.run("ramcore", *arguments, **options).stdout

    def export(self, table, scheme=None):
        """All objects of a table as {key: (value, version)}; a key that comes twice is a failure."""
        objects = {}
        lines = self.rc("export", table, scheme=scheme)
        self.exported[table] = self.path(f"{table}.export")
        with open(self.exported[table], "w", encoding="utf-8") as file:
            file.write(lines)
        for line in lines.splitlines():
            item = json.loads(line)
            key = item["key"] if "key" in item else "base64:" + item["key64"]
            if key in objects:
                raise Failed(f"{table} gave {key} twice")
            objects[key] = (item.get("value", item.get("value64")), item["version"])
        return objects

    def status(self, timeout_ms=1000):
        """What `ramcore status` tells a program. Briefly: a cluster that is not whole may not answer."""
        return json.loads(self.rc("--timeout-ms", str(timeout_ms), "status", "--json"))

    def wait_status(self, condition, seconds_max=60):
        """The first status that meets the condition. Each has time: servers that start their logs anew answer late."""
        return wait_for(lambda: self.status(timeout_ms=10_000), condition, seconds_max)

    def tablets(self, table):
        return json.loads(self.run("rcmigrate", "list", table, "--json").stdout)["tablets"]


def may_change_objects(name, arguments):
    """Whether a call of that tool does. Of what follows on `ramcore` only the subcommand says so: keys and values may be any words."""
    if name == "rcmigrate":
        return False
    rest = [str(argument) for argument in arguments]
    while rest and rest[0].startswith("-"):  # each of the options before it has a value
        del rest[:1 if "=" in rest[0] else 2]
    return name != "ramcore" or rest[:1] == [] or rest[0] not in READS


def wait_for(look, condition, seconds_max=60):
    """What look() gives when it meets the condition. For tests about what an asker sees: there is no event to wait for."""
    deadline = time.monotonic() + seconds_max
    while not condition(seen := look()):
        if time.monotonic() > deadline:
            raise Failed(f"still so after {seconds_max} s: {seen}")
        time.sleep(0.05)
    return seen


def run(arguments, stdin=None, check=True, timeout=COMMAND_SECONDS_MAX):
    """Runs a command to its end."""
    done = subprocess.run(arguments, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done


__all__ = ["BIN_DIR", "Cluster", "Daemon", "Failed", "run", "signal", "tool", "wait_for"]
