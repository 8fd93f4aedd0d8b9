"""Rounds of tests/durability/run in which something is wrong with the coordinator, and no server may suffer for it: it is cut
off, or started with a directory that is not the cluster's newest."""

import os
import re
import time

from cluster_harness import Daemon, run, tool, wait_for

CUTS_S = (2, 4, 10, 25, 40)
CUT_S_QUICK = 4
BLIP_S_MAX = 25  # after a shorter cut all is as it was before
WRONG_S = (1, 3, 5)  # less than a lease, more than --death-after-ms
SAYS_S_MAX = 20
FILLED = 2000  # objects of a table that an older copy does not know
EVERYTHING = "0-ffffffffffffffff"


class Violation(Exception):
    """The cluster lost or invented something, or does not answer any more. `by_oracle`: the judge of answers says so."""

    def __init__(self, what, by_oracle=False):
        super().__init__(what)
        self.by_oracle = by_oracle


class CoordinatorRounds:
    """A part of Scenario. What they have in common: every process of a server stays, and goes on."""

    def round_coordinator_cut(self, number):
        seconds = CUT_S_QUICK if self.options.quick else CUTS_S[(number - 1) % len(CUTS_S)]
        before = self.standing()
        self.await_load()
        begun_ns = time.monotonic_ns()
        self.cluster.network.cut()
        try:
            time.sleep(seconds)  # this is what the scenario is about
        finally:
            self.cluster.network.mend()
        self.judge_return(number, f"coordinator cut off for {seconds} s", begun_ns, before, seconds <= BLIP_S_MAX)

    def round_wrong_directory(self, number):
        seconds = WRONG_S[number % len(WRONG_S)]
        before = self.standing()
        self.await_load()
        begun_ns = time.monotonic_ns()
        right = self.cluster.coordinator
        right.stop()
        wrong = self.cluster.start_coordinator_on(self.cluster.path(f"wrong-{number}"), "--new-cluster")
        wrong.wait_ready()
        other = self.cluster.status()["cluster"]
        for server in self.cluster.servers.values():
            wait_says(server, rf"is of cluster {other}, this process of {before['cluster']}", f"the other cluster, {other}")
        time.sleep(seconds)
        wrong.stop()
        self.cluster.start_coordinator(right.locators)
        self.judge_return(number, f"coordinator of another cluster for {seconds} s", begun_ns, before, True)

    def round_old_copy(self, number):
        copy = self.cluster.path(f"copy-{number}")
        os.mkdir(copy)
        run([tool("ramcore-coordinator"), "--storage", self.cluster.path("coordinator"), "--export",
             os.path.join(copy, "coordinator.sqlite")])
        self.fill(f"later-{number}")
        if number % 2:
            victim, ranges = self.choose_victim()
            at_ns = self.cluster.kill_now([self.cluster.servers[victim]])
            self.cluster.start_again([victim])
            self.await_answers(at_ns, ranges)
            self.cluster.await_whole()
        before = self.standing()
        self.await_load()
        begun_ns = time.monotonic_ns()
        right = self.cluster.coordinator
        self.cluster.kill_now([right])
        old = self.cluster.start_coordinator_on(copy)
        says = wait_says(old, r"this state of the cluster is an older copy[^\n]*", "what it misses")
        if len(re.findall(r"\b\d+\b", says)) < 2:
            raise Violation(f"the coordinator does not say which change it has, and which it misses: {says}")
        self.must_serve_nobody()
        again = number % 2 == 0
        if again:  # what it was told is stored
            self.cluster.kill_now([old])
            old = self.cluster.start_coordinator_on(copy)
            wait_says(old, r"nobody is served", "what it was told of before")
            self.must_serve_nobody()
        self.cluster.kill_now([old])
        self.cluster.start_coordinator(right.locators)
        self.judge_return(number, "an older copy of the coordinator's directory" + (", twice" if again else ""), begun_ns, before, True)
        for name in [f"later-{i}" for i in range(1, number + 1)]:
            self.check_filled(name)

    # --- their parts

    def standing(self):
        status = self.cluster.status()
        return {"cluster": status["cluster"], "ids": {server["name"]: server["id"] for server in status["servers"] if server["alive"]},
                "owned": self.cluster.owned(),
                "processes": {name: server.process.pid for name, server in self.cluster.servers.items()},
                "log_bytes": os.path.getsize(self.cluster.coordinator.log_path)}

    def await_answers(self, since_ns, ranges):
        limit_ms = self.options.recovery_ms
        return self.oracle.ask("await-answers", since_ns, limit_ms, *ranges, seconds_max=limit_ms / 1000 + 10)["silent_ranges"]

    def judge_return(self, number, what, begun_ns, before, is_blip):
        """The coordinator is there again: everybody goes on, in the same processes, and after a blip under the same ids."""
        back_ns = time.monotonic_ns()
        ranges = [tablet_range for ranges in before["owned"].values() for tablet_range in ranges]
        silent = self.await_answers(back_ns, ranges)
        answered_ms = (time.monotonic_ns() - back_ns) / 1e6
        self.must_all_run(before["processes"])
        if silent:
            raise Violation(f"{silent} tablets without an answer {self.options.recovery_ms} ms after")
        verdict = self.oracle.ask("verify", self.options.recovery_ms,
                                  seconds_max=(self.options.recovery_ms + self.options.timeout_ms) / 1000 + 60)
        gap = self.oracle.ask("gap", begun_ns, EVERYTHING)
        violations = verdict["violations"]
        said = self.cluster.coordinator_said(before["log_bytes"])
        verdicts = re.findall(r"[^\n]*\) is declared dead[^\n]*", said)
        ids = self.cluster.await_living(set(before["ids"]))
        self.must_all_run(before["processes"])
        if is_blip and (verdicts or ids != before["ids"] or self.cluster.owned() != before["owned"]):
            violations.insert(0, f"something was recovered: there are {ids}, there were {before['ids']}\n" + "\n".join(verdicts))
        print(f"{self.name} {number}: {what}; every tablet answers {answered_ms:.0f} ms after, outage {gap['outage_ms']:.0f} ms; "
              f"{len(verdicts)} servers declared dead; {verdict['calls']} calls, {verdict['unanswered']} unanswered, "
              f"{len(violations)} violations", flush=True)
        if violations:
            raise Violation("\n".join(violations[:20]))

    def must_all_run(self, processes):
        for name, server in self.cluster.servers.items():
            if not server.is_running() or server.process.pid != processes[name]:
                raise Violation(f"the process of {name} has ended\n{server.log()}")

    def fill(self, name):
        self.cluster.rc("create", name)
        lines = "".join(f'{{"key":"k{i}","value":"{name} {i}"}}\n' for i in range(FILLED))
        self.cluster.rc("import", "--quiet", name, stdin=lines)

    def check_filled(self, name):
        objects = self.cluster.export(name)
        wrong = [key for key, (value, _) in objects.items() if value != f"{name} {key[1:]}"]
        if wrong or len(objects) != FILLED:
            raise Violation(f"{name} has {len(objects)} of {FILLED} objects, {len(wrong)} of them wrong")

    def must_serve_nobody(self):
        done = self.cluster.run("ramcore", "--timeout-ms", 1000, "create", "for-nobody", check=False)
        if done.returncode == 0:
            raise Violation("a coordinator whose state is an older copy makes a table")


class CoordinatorPlaces:
    """What these rounds need of a cluster beside what it can do: a coordinator on another directory, or at the other end of a
    wire (`network`, if there is one)."""

    network = None

    def process_prefix(self, name):
        return self.network.prefix(name) if self.network else super().process_prefix(name)

    def load_command(self, program):
        return (self.network.prefix("load") if self.network else []) + super().load_command(program)

    def listen_locators(self, name):
        if not self.network:
            return super().listen_locators(name)
        return [f"tcp://{self.network.address(name)}:0"]

    def start_coordinator_on(self, directory, *flags):
        """In the place of the one that was there, which the caller has ended; the caller waits for it."""
        locators = self.coordinator.locators
        self.coordinator = Daemon("coordinator", self.coordinator_arguments(locators, directory) + list(flags), self.coordinator.log_path)
        self.coordinator.locators = locators  # it may never be ready
        return self.coordinator

    def coordinator_said(self, since_bytes):
        with open(self.coordinator.log_path, encoding="utf-8", errors="replace") as file:
            file.seek(since_bytes)
            return file.read()

    def await_living(self, names):
        """{server: id}, once all of them live: one that was declared dead comes back with another id."""
        return wait_for(self.living_ids, lambda living: set(living) >= names)


def wait_says(daemon, pattern, what):
    """What a process says, within some seconds, in its present life."""
    said = daemon.wait_matches(pattern, SAYS_S_MAX)
    if not said:
        raise Violation(f"{daemon.name} did not tell of {what} within {SAYS_S_MAX} s\n{daemon.log()}")
    return said
