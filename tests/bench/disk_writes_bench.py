#!/usr/bin/env python3
"""Where backups write: small replicated writes with --storage-writes auto, inline and handoff, beside those of another
build if there is one; and reads of a server whose disk stalls, beside the same without stalls.

Usage: disk_writes_bench.py [--other BIN_DIR] [--rounds 7] [--seconds 2] [--stall-seconds 20] [--transport tcp]
       [--only writes|reads] [--json] [--smoke]

Writes: two clusters at a time, each a coordinator and 4 servers with three copies, of which one has the only tablet.
Rounds are interleaved, and a cluster that has no round is idle. Reads: at a fixed rate, counted from when each was due,
from a server that keeps copies for another one that is written to all the time; every 50th of its writes to the disk
takes 500 ms longer (stalling_writes.c, preloaded). RAMCORE_BIN_DIR says where the tools are. Exits with 0 whatever it
measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cluster"))
import cluster_harness  # noqa: E402 (the path comes first)
from cluster_harness import BIN_DIR, Cluster  # noqa: E402
from figures import Report, ratios  # noqa: E402

RECORDS = 10_000
READS_PER_S = 2_000
OUTSTANDING = 16


def owner_of(cluster, table):
    status = json.loads(cluster.rc("status", "--json"))
    tablets = next(known for known in status["tables"] if known["name"] == table)["tablets"]
    return next(server["name"] for server in status["servers"] if server["id"] == tablets[0]["owner"])


class Subject:
    """A cluster of one build with one setting. The tools are always our own."""

    def __init__(self, bin_dir, flags, transport):
        self.bin_dir, self.flags, self.transport = bin_dir, flags, transport
        self.cluster = Cluster(memory="64MiB", name="disk", transports=sorted({"tcp", transport}), replicas=3,
                               storage="256MiB", autostart=False)

    def start(self, environment=lambda name: None):
        """`environment`: gives what a server has in it besides ours."""
        self.cluster.__enter__()
        with cluster_harness.programs_of(self.bin_dir):
            self.cluster.start_coordinator()
            servers = [self.cluster.start_server(name, wait=False, extra=["--min-replicas", "2", *self.flags],
                                                 environment=environment(name)) for name in ("s1", "s2", "s3", "s4")]
        for server in servers:
            server.wait_ready()
        return self

    def arguments(self, *flags, table="rcbench"):
        return self.cluster.arguments("rcbench", "--table", table, "--records", RECORDS, "--transport", self.transport,
                                      "--distribution", "uniform", *flags, scheme=self.transport)

    def load(self, *flags, table="rcbench"):
        return cluster_harness.run(self.arguments(*flags, table=table)).stdout

    def make(self, table):
        self.cluster.rc("create", table, "--tablets", "1")
        self.load("--load-only", table=table)

    def writes(self, seconds, outstanding):
        done = json.loads(self.load("--no-load", "--read-ratio", 0, "--warmup-s", 0.3, "--duration-s", seconds,
                                    "--outstanding", outstanding, "--json"))
        return {"p50_us": done["latency_us"]["p50"], "rate": done["operations_per_s"]}

    def stop(self):
        self.cluster.__exit__(None, None, None)


def measure_writes(options, report):
    """Each setting beside the other build, or beside writes on the dispatch thread."""
    base = (options.other, []) if options.other else (BIN_DIR, ["--storage-writes", "inline"])
    for kind in ["inline", "auto", "handoff"] if options.other else ["auto", "handoff"]:
        measure_pair(kind, Subject(BIN_DIR, ["--storage-writes", kind], options.transport),
                     Subject(*base, options.transport), options, report)


def measure_pair(kind, ours, base, options, report):
    rounds = {outstanding: ([], []) for outstanding in (1, OUTSTANDING)}
    try:
        for subject in (ours, base):
            subject.start()
            subject.make("rcbench")
        for outstanding, (of_ours, of_base) in rounds.items():
            for index in range(options.rounds):
                # Each goes first in every other round: who comes second finds the machine as the first one left it.
                turns = [(base, of_base), (ours, of_ours)]
                for subject, done in turns if index % 2 == 0 else reversed(turns):
                    done.append(subject.writes(options.seconds, outstanding))
        report_pair(kind, rounds, options, report)
    finally:
        for subject in (ours, base):
            subject.stop()


def report_pair(kind, rounds, options, report):
    for outstanding, (of_ours, of_base) in rounds.items():
        title = f"{options.transport}, {outstanding} outstanding, {kind}"
        report.figure(title + ": p50", "us", [done["p50_us"] for done in of_ours])
        report.figure(title + ": p50 of the other", "us", [done["p50_us"] for done in of_base])
        report.figure(title + ": rate", "/s", [done["rate"] for done in of_ours])
        report.figure(title + ": rate by the other", "x",
                      ratios([done["rate"] for done in of_ours], [done["rate"] for done in of_base]),
                      at_least=None if kind == "handoff" else 0.97)


class Stalls:
    """A library that stalls writes of those who preload it, and a switch for each of them."""

    def __init__(self, folder):
        self.folder = folder
        self.library = os.path.join(folder, "stalling_writes.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", self.library,
                        os.path.join(HERE, "stalling_writes.c")], check=True)

    def environment(self, server):
        with open(os.path.join(self.folder, server), "wb") as file:
            file.write(bytes(4096))
        return {"LD_PRELOAD": self.library, "STALL_SWITCH": os.path.join(self.folder, server), "STALL_EVERY": "50",
                "STALL_MS": "500"}

    def turn(self, server, on):
        with open(os.path.join(self.folder, server), "r+b") as file:
            file.write(bytes([int(on)]))


def measure_reads(options, report):
    kinds = {"auto": (BIN_DIR, ["--storage-writes", "auto"]), "handoff": (BIN_DIR, ["--storage-writes", "handoff"])}
    if options.other:
        kinds = {"other": (options.other, []), **kinds}
    for name, (bin_dir, flags) in kinds.items():
        with tempfile.TemporaryDirectory(prefix="ramcore-bench-") as folder:
            stalls = Stalls(folder)
            subject = Subject(bin_dir, flags, options.transport)
            try:
                measure_reads_of(name, subject.start(stalls.environment), stalls, options, report)
            finally:
                subject.stop()


def measure_reads_of(name, subject, stalls, options, report):
    cluster = subject.cluster
    for table in ("read", "written"):
        subject.make(table)
    reader = owner_of(cluster, "read")
    if owner_of(cluster, "written") == reader:
        raise SystemExit("both tables are on one server")
    figures = {}
    for what, on in (("without stalls", False), ("the first seconds of stalls", True), ("with stalls", True)):
        seconds = options.stall_seconds
        writer = subprocess.Popen(subject.arguments("--no-load", "--read-ratio", "0", "--warmup-s", "0", "--duration-s",
                                                    str(seconds + 3), "--outstanding", "4", "--json", table="written"),
                                  stdout=subprocess.PIPE, text=True)
        stalls.turn(reader, on)
        done = json.loads(subject.load("--no-load", "--read-ratio", 1, "--warmup-s", 0, "--duration-s", seconds, "--rate",
                                       READS_PER_S, "--json", table="read"))
        written = json.loads(writer.communicate()[0])
        stalls.turn(reader, False)
        latency = done["latency_us"]
        figures[what] = latency["p99.9"]
        for share in ("p50", "p99", "p99.9", "max"):
            report.figure(f"{name}, reads {what}: {share}", "us", [latency[share]])
        report.figure(f"{name}, writes {what}", "/s", [written["operations_per_s"]])
    report.figure(f"{name}: p99.9 of reads with stalls by without", "x",
                  [figures["with stalls"] / figures["without stalls"]], at_most=2 if name != "other" else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--other", help="folder with the tools of another build")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--stall-seconds", type=float, default=20)
    parser.add_argument("--transport", default="tcp", choices=["tcp", "shm"])
    parser.add_argument("--only", choices=["writes", "reads"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.rounds, options.seconds, options.stall_seconds = 1, 0.3, 2
    report = Report(options.json)
    if options.only != "reads":
        measure_writes(options, report)
    if options.only != "writes":
        measure_reads(options, report)
    report.finish("disk_writes", {"rounds": options.rounds, "seconds": options.seconds,
                                  "stall_seconds": options.stall_seconds})


if __name__ == "__main__":
    main()
