"""durability_oracle (tests/durability): a client that calls a cluster, notes every call and judges the answers."""

import json
import os
import select
import subprocess
import time

from cluster_harness import BIN_DIR, Failed


class Oracle:
    """The process that calls and judges. One question at a time, each with a deadline."""

    def __init__(self, cluster, table, tablets, rate, timeout_ms=10000, seed=1, workers=16, clients=4, registers=300,
                 counters=100):
        self.journal = cluster.path("journal.ndjson")
        cluster.journals[table] = self.journal
        self.log = open(cluster.path("oracle.log"), "a+b")
        self.process = subprocess.Popen(
            cluster.load_command(os.path.join(BIN_DIR, "..", "durability_oracle")) +
            ["--table", table, "--tablets", str(tablets), "--journal", self.journal, "--rate", str(rate), "--timeout-ms",
             str(timeout_ms), "--seed", str(seed), "--workers", str(workers), "--clients", str(clients), "--registers",
             str(registers), "--counters", str(counters)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self.rest = b""

    def __enter__(self):
        self.read(30)  # it is there
        return self

    def __exit__(self, kind, value, traceback):
        try:
            self.process.stdin.close()
            self.process.wait(60 if kind is None else 1)
        except (subprocess.TimeoutExpired, OSError):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        try:
            if kind is None and self.process.returncode != 0:
                raise Failed(self.end_of(self.process.returncode))
        finally:
            self.log.close()

    def end_of(self, code):
        self.log.seek(0)
        return f"the oracle ended with {code}: {self.log.read()[-500:].decode(errors='replace')}"

    def read(self, seconds_max):
        deadline = time.monotonic() + seconds_max
        while b"\n" not in self.rest:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"the oracle did not answer within {seconds_max} s")
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                raise Failed(self.end_of(self.process.wait()))
            self.rest += piece
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def find_overwritten(self, objects, but):
        """(key, value, earlier value) of a key that is there and was overwritten, other than `but`."""
        written = {}
        with open(self.journal, encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("kind") == "write":
                    written.setdefault(line["key"], {})[line["call"]] = line["argument"]
                elif line.get("status") != "Ok":
                    for values in written.values():
                        values.pop(line["call"], None)
        for key, values in written.items():
            earlier = [value for value in values.values() if value != objects.get(key, ("",))[0]]
            if key in objects and key not in but and earlier:
                return key, objects[key][0], earlier[0]
        raise Failed("no key was overwritten")

    def ask(self, *words, seconds_max=60):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()
        return self.read(seconds_max)
