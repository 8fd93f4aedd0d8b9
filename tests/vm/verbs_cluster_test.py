#!/usr/bin/env python3
"""A cluster whose processes have nothing but queue pairs: what is written is there after moves under load and after the
death of a server; processes that die leave nothing behind. Runs in a machine with RDMA devices (tests/vm/run)."""

import json
import os
import re
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "walker"))
from adapter_scenario import live_through  # noqa: E402
from cluster_harness import BIN_DIR, Cluster, Failed, run, wait_for  # noqa: E402
from metrics_endpoint import free_port, scrape  # noqa: E402
from oracle import Oracle  # noqa: E402
from sent_ledger import SentLedger  # noqa: E402

DEATHS = int(os.environ.get("RAMCORE_VM_DEATHS", "100"))
AT_ONCE = 4
SERVER_DEATHS = int(os.environ.get("RAMCORE_VM_SERVER_DEATHS", "6"))
SERVER_DEATHS_TO_WARM_UP = 4
SERVER_DEATH_ROUNDS_MAX = 3
DEVICES = (os.environ.get("RDMA_DEV0", ""), os.environ.get("RDMA_DEV1", ""))
LOG_BYTES_LEAST = 48 << 20  # half of what servers here have; nothing else that is registered comes near
LINKS = ("rdma0", "rdma1")  # below these devices (tests/vm/run)
SECRET = "a secret for this machine alone"


def kernel_counts():
    """Queue pairs, regions and the like of all devices, as the kernel counts them."""
    counts = {}
    for line in run(["rdma", "resource", "show"]).stdout.splitlines():
        for kind, count in re.findall(r"\b(pd|cq|qp|mr|ctx|srq) (\d+)", line.split(":", 2)[2]):
            counts[kind] = counts.get(kind, 0) + int(count)
    return counts


def counts_of(pid):
    """The same of one process."""
    return {kind: len(re.findall(rf"\bpid {pid}\b", run(["rdma", "resource", "show", kind]).stdout))
            for kind in ("pd", "cq", "qp", "mr", "ctx", "srq")}


def sent(port):
    """What the server has given to its device, and what became of the values that it lent for that."""
    metrics = scrape(port)[0]

    def of_verbs(name):
        return metrics[f'ramcore_sent_{name}_total{{transport="verbs"}}']
    return {"payload": of_verbs("payload_bytes"), "gathered": of_verbs("gathered_bytes"), "chunks": of_verbs("chunks"),
            "copied": of_verbs("long_chunks_copied"), "lent": int(metrics["ramcore_pins_total"]),
            "back": int(metrics["ramcore_pins_ended_total"])}


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read()).group(1))


class VerbsClusterTest(unittest.TestCase):
    def setUp(self):
        self.assertTrue(os.environ.get("RDMA_IP0"), "this machine has no RDMA devices")

    def test_moves_under_load_and_the_death_of_a_server_lose_nothing(self):
        with Cluster(servers=4, secret=SECRET, transports=("verbs",), replicas=2, storage="384MiB",
                     death_after_ms=10000) as cluster:
            status = cluster.status()
            # Sessions between servers are counted as well: servers can reach each other over nothing else.
            for process in [*status["servers"], status["coordinator"]]:
                self.assertGreater(process["sessions"], 0, process)
                self.assertEqual(process["sessions_by_transport"]["verbs"], process["sessions"], process)
            # Some values are larger than what a receive buffer takes.
            live_through(self, cluster, long_bytes=20000, seconds_max=180)

    def test_what_is_wrong_with_a_device_is_said(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",)) as cluster:
            for device, cause, remedy in ((f"{DEVICES[0]}:5", f"RDMA device {DEVICES[0]} has no port 5", "its ports are 1 to 1"),
                                          (f"{DEVICES[0]}:1:200", "200", "ibv_devinfo -v"),
                                          ("nosuch", "there is no RDMA device 'nosuch'", "there are: " + DEVICES[0])):
                done = run(cluster.arguments("ramcore", "--rdma-device", device, "list"), check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(cause, done.stderr)
                self.assertIn(remedy, done.stderr)
            for device in (DEVICES[1], f"{DEVICES[1]}:1", f"{DEVICES[1]}:1:{os.environ['RDMA_GID_INDEX']}"):
                self.assertEqual(cluster.rc("--rdma-device", device, "list"), "")

    def test_a_limit_of_locked_memory_is_named(self):
        remedy = r": Cannot allocate memory; raise the limit of locked memory \(ulimit -l; LimitMEMLOCK= of systemd\)"

        def limited(limit, command):
            return run(["prlimit", f"--memlock={limit}", "setpriv", "--bounding-set=-ipc_lock", *command], check=False)
        with Cluster(servers=0, secret=SECRET, transports=("verbs",), memory="64MiB") as cluster:
            # Nothing at all can be registered; what sessions need can, and the log cannot.
            for limit, what in ((65536, r"\d+"), (16 << 20, "67108864")):
                done = limited(limit, cluster.server_arguments("s1"))
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertRegex(done.stderr, rf"ramcore-server: RDMA device {DEVICES[1]} cannot register {what} bytes of memory"
                                              + remedy)
            done = limited(65536, cluster.arguments("ramcore", "list"))
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertRegex(done.stderr, r"ramcore: this program has no transport for verbs://.*; verbs is not used: RDMA device "
                                          rf"{DEVICES[0]} cannot register \d+ bytes of memory" + remedy)

    def test_a_server_that_is_not_told_where_listens_over_it_too(self):
        for name, secret, where in (("at the address of a device", SECRET, ["--listen", f"all://{os.environ['RDMA_IP0']}:0"]),
                                    ("by default", None, [])):
            with self.subTest(name), Cluster(servers=0, secret=secret, transports=None, memory="64MiB") as cluster:
                server = cluster.start_server("s1", extra=where)
                self.assertEqual([locator.split("://")[0] for locator in server.locators], ["tcp", "shm", "verbs"])
                cluster.rc("create", "t")
                # As from another machine: over what is left.
                os.unlink(server.locators[1][len("shm://"):])
                load = cluster.start("rcbench", "--table", "t", "--records", 10, "--warmup-s", 0, "--duration-s", 60,
                                     "--announce", "/dev/stderr")
                try:
                    self.assertEqual(load.stderr.readline().strip(), "measuring")
                    status = cluster.wait_status(lambda now: any(one["peer_role"] == "client"
                                                                 for one in now["servers"][0]["open_sessions"]))
                    self.assertEqual({one["transport"] for one in status["servers"][0]["open_sessions"]
                                      if one["peer_role"] == "client"}, {"verbs"})
                finally:
                    load.terminate()
                    load.communicate()

    def test_a_blocked_data_path_is_left_for_tcp(self):
        """As behind a firewall that drops RoCE: sessions over queue pairs open, for that goes over tcp, and do not answer."""
        with Cluster(servers=1, secret=SECRET, transports=("tcp", "verbs"), memory="64MiB", death_after_ms=60000) as cluster:
            cluster.run("ramcore", "create", "t", scheme="tcp")
            cluster.run("ramcore", "put", "t", "k", "v", scheme="tcp")
            try:
                for link in LINKS:  # below the devices; between its own addresses the machine's tcp does not go there
                    run(["tc", "qdisc", "add", "dev", link, "root", "netem", "loss", "100%"])
                begin = time.monotonic()
                # The coordinator is asked over tcp, the server over what both have; from both devices one is not its own.
                for device in DEVICES:
                    got = cluster.run("ramcore", "--rdma-device", device, "--timeout-ms", "20000", "get", "t", "k", scheme="tcp")
                    self.assertEqual(got.stdout.strip(), "v")
                print(f"read after {time.monotonic() - begin:.1f} s")
            finally:
                for link in LINKS:
                    run(["tc", "qdisc", "del", "dev", link, "root"], check=False)

    def test_multi_reads_are_sent_from_the_log(self):
        """All but heads and what fills a descriptor, as the adapter is given it and as the server itself counts; a build that
        copies once more (the mutations) is found out, also if it counts as if it did not."""
        with Cluster(servers=1, secret=SECRET, transports=("verbs",), autostart=False) as cluster:
            cluster.start_coordinator()
            port = free_port()
            ledger = SentLedger(BIN_DIR, "verbs", cluster.path("sent"), LOG_BYTES_LEAST)
            cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}"], environment=ledger.environment)
            load = ["rcbench", "--transport", "verbs", "--records", 1000, "--value-bytes", 1000, "--json"]
            cluster.run(*load, "--load-only")
            before, walked = sent(port), ledger.counts()
            report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--batch", 16, "--outstanding", 4,
                                            "--warmup-s", 0, "--duration-s", 3).stdout)
            after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
            payload, gathered, chunks, copied, lent, _ = (int(after[name] - before[name]) for name in after)
            values = after["lent"] - before["lent"]
            walk = ledger.judge(self, walked, values, 1000, after["back"] - before["back"])
            self.assertEqual(walk["log_pieces"], values)
            print(f"{report['operations']} multi-reads of 16 x 1000 B: {payload} B given to the device, of them "
                  f"{100 * (payload - gathered) / payload:.2f} % copied by us; {chunks} pieces from the log, {copied} long "
                  f"ones copied; {lent} lent and given back")
            self.assertEqual(report["errors"], {})
            self.assertLess((payload - gathered) / payload, 0.05)
            self.assertGreater(chunks, 16 * 50)
            self.assertEqual(copied, 0)
            self.assertEqual(lent, chunks)


class VerbsDetailsTest(unittest.TestCase):
    """For the long tier: of devices, ways and ports."""

    def test_a_device_with_more_addresses_than_packets_can_name(self):
        addresses = [f"10.78.{i // 100}.{1 + i % 100}/32" for i in range(300)]

        def change(what):
            run(["ip", "-batch", "-"], stdin="".join(f"address {what} {one} dev {LINKS[1]}\n" for one in addresses))

        def gids():
            with open("/sys/class/infiniband/" + DEVICES[1] + "/ports/1/gids/290", encoding="utf-8") as file:
                return file.read().strip()
        with Cluster(servers=0, secret=SECRET, transports=("verbs",)) as cluster:
            change("add")
            try:
                wait_for(gids, lambda gid: gid.startswith("0000:0000:0000:0000:0000:ffff:0a4e"), 60)
                self.assertEqual(cluster.rc("--rdma-device", DEVICES[1], "list"), "")
            finally:
                change("del")

    def test_the_best_way_that_both_have_is_taken(self):
        with Cluster(servers=2, secret=SECRET, transports=("tcp", "verbs"), replicas=1) as cluster:
            cluster.run("ramcore", "create", "t", scheme="tcp")
            cluster.run("ramcore", "put", "t", "k", "v", scheme="tcp")
            status = cluster.wait_status(lambda now: now["health"] == "ok" and all(
                any(one["peer_role"] == "server" for one in server["open_sessions"]) for server in now["servers"]))
            for server in status["servers"]:
                used = {one["transport"] for one in server["open_sessions"] if one["peer_role"] == "server"}
                self.assertEqual(used, {"verbs"}, server)

    def test_packets_carry_the_traffic_class(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",)) as cluster:
            # Between the devices packets cross the wire.
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as wire:
                wire.bind((LINKS[0], 0))
                wire.settimeout(1)
                cluster.rc("--rdma-device", DEVICES[1], "--rdma-traffic-class", "104", "list")
                classes = set()
                try:
                    while True:
                        frame = wire.recv(9000)
                        # UDP to the port of RoCE, from the tool: its address is that of the second device.
                        if frame[23] == 17 and frame[36:38] == (4791).to_bytes(2, "big") and frame[26:30] == socket.inet_aton(
                                os.environ["RDMA_IP1"]):
                            classes.add(frame[15])
                except TimeoutError:
                    pass
            self.assertEqual(classes, {104})

    def test_a_port_that_goes_and_comes_back(self):
        with Cluster(servers=0, secret=SECRET, transports=("verbs",), replicas=0) as cluster:
            server = cluster.start_server("s1", extra=["--rdma-device", DEVICES[1]])
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "before")
            run(["ip", "link", "set", LINKS[1], "down"])
            try:
                wait_for(server.log, lambda log: "the port of " + DEVICES[1] in log and "is down" in log, 60)
                missing = run(cluster.arguments("ramcore", "--rdma-device", DEVICES[1], "list"), check=False)
                self.assertEqual(missing.returncode, 2, missing.stderr)
                self.assertIn(f"RDMA device {DEVICES[1]} has no active port", missing.stderr)
            finally:
                run(["ip", "link", "set", LINKS[1], "up"])
            wait_for(server.log, lambda log: "active again" in log, 60)
            # Sessions come back by themselves, those of the server to the coordinator, too.
            wait_for(cluster.status, lambda now: all(one["answers"] for one in now["servers"]), 60)
            cluster.rc("--timeout-ms", "20000", "put", "t", "k", "after")
            self.assertEqual(cluster.rc("get", "t", "k").strip(), "after")


class VerbsLeavingsTest(unittest.TestCase):
    """Minutes each: for the long tier."""

    def test_a_peer_that_dies_again_and_again_leaves_nothing_behind(self):
        with Cluster(servers=1, secret=SECRET, transports=("verbs",)) as cluster:
            cluster.rc("create", "t")
            cluster.rc("put", "t", "k", "x" * 20000)
            server = cluster.servers["s1"].process.pid

            def die(count):
                """Clients that are killed while they read large values."""
                loads = [cluster.start("rcbench", "--transport", "verbs", "--table", "u", "--records", 5, "--value-bytes",
                                       30000, "--outstanding", 8, "--warmup-s", 0, "--duration-s", 60, "--announce",
                                       "/dev/stderr") for _ in range(count)]
                said = [load.stderr.readline().strip() for load in loads]
                for load in loads:
                    load.kill()
                rest = [load.communicate()[1] for load in loads]
                if said != ["measuring"] * count:
                    raise Failed(f"{said} {rest}")

            def settled():
                """When nobody but the daemons is left, and their sessions with the dead have ended."""
                before = kernel_counts()
                return before if before["qp"] == quiet["qp"] else None

            die(1)
            quiet = wait_for(kernel_counts, lambda counts: counts["qp"] <= 6, 60)  # one of each device, two sessions of daemons
            for _ in range(3):
                die(AT_ONCE)
            begin = wait_for(settled, lambda counts: counts is not None, 60)
            begin_kb = resident_kb(server)
            for _ in range(DEATHS // AT_ONCE):
                die(AT_ONCE)
            end = wait_for(settled, lambda counts: counts is not None, 60)
            end_kb = resident_kb(server)
            print(f"{DEATHS} deaths: {begin} before, {end} after; resident {begin_kb} kB before, {end_kb} kB after")
            self.assertEqual(end, begin)
            self.assertLess(end_kb, begin_kb + 4096)
            self.assertEqual(cluster.rc("get", "t", "k").strip(), "x" * 20000)
            # (That a session ends because its peer's memory has gone under a transfer is a warning, and no more than that.)
            errors = [line for line in cluster.servers["s1"].log().splitlines() if line.split()[1:2] == ["error"]]
            self.assertEqual(errors, [])

    def test_what_a_session_costs(self):
        """Receive buffers for each slot, a queue pair and its work requests; docs/rdma.md says how much."""
        clients = 50
        with Cluster(servers=1, secret=SECRET, transports=("verbs",)) as cluster:
            server = cluster.servers["s1"].process.pid
            cluster.rc("create", "rcbench")

            def settled():
                """Queue pairs of the server and the coordinator with each other: both connect."""
                return wait_for(lambda: counts_of(server)["qp"], lambda count: count >= 2, 60)

            def held(connections):
                """With so many clients, each with a session to the server."""
                without = settled()
                load = cluster.start("rcbench", "--transport", "verbs", "--records", 50, "--value-bytes", 100, "--connections",
                                     connections, "--warmup-s", 0, "--duration-s", 120, "--announce", "/dev/stderr")
                try:
                    if load.stderr.readline().strip() != "measuring":
                        raise Failed(load.communicate()[1])
                    counts = wait_for(lambda: counts_of(server), lambda now: now["qp"] >= without + connections, 60)
                    self.assertEqual(counts["qp"], without + connections)
                    return counts | {"kB": resident_kb(server)}
                finally:
                    load.kill()
                    load.communicate()
                    wait_for(lambda: counts_of(server)["qp"], lambda count: count <= without, 60)
            before, after = held(1), held(1 + clients)
            each = {kind: (after[kind] - before[kind]) / clients for kind in before}
            print(f"{clients} sessions over queue pairs: {each['kB']:.0f} kB resident and {each['mr']:.2f} regions each")
            self.assertEqual((each["qp"], each["pd"], each["cq"], each["srq"]), (1, 0, 0, 0))
            # 65 buffers, 64 of which are 1 MB and one region: for each of them, though they came all at once.
            self.assertGreaterEqual(each["mr"], 1)
            self.assertLess(each["mr"], 1.2)
            self.assertLess(each["kB"], 1900)

    def test_a_server_that_dies_again_and_again_leaves_nothing_behind(self):
        """It is a peer of the coordinator, of servers whose copies it keeps and that keep its own, and of a client."""
        with Cluster(servers=3, secret=SECRET, transports=("verbs",), replicas=1, memory="64MiB", storage="256MiB",
                     death_after_ms=20000) as cluster:
            survivors = {daemon.name: daemon.process.pid
                         for daemon in (cluster.coordinator, cluster.servers["s1"], cluster.servers["s2"])}
            cluster.rc("create", "t", "--tablets", "6")

            def die(number):
                cluster.servers["s3"].kill()
                cluster.start_server("s3")  # the one before is dead by that, and recovered
                # The new one shall have something to lose, and places that peers have read and written.
                tablet = cluster.tablets("t")[number % 6]["tablet"]
                cluster.run("rcmigrate", "move", tablet, "--to", "s3", "--quiet")
                lines = (json.dumps({"key": f"key {i}", "value": f"{number} " + "x" * (20000 if i % 20 == 0 else 100)})
                         for i in range(60))
                cluster.rc("import", "t", "--quiet", stdin="\n".join(lines) + "\n")
                if number % 5 == 0:
                    whole()

            def whole():
                return cluster.wait_status(lambda now: now["health"] == "ok" and not now["recoveries"], 60)

            def held():
                return {name: counts_of(pid) | {"kB": resident_kb(pid)} for name, pid in survivors.items()}

            def without_peer():
                """Queue pairs of survivors beyond those of sessions that are open; those of tools end by themselves."""
                status = cluster.status()
                sessions = {"coordinator": status["coordinator"]} | {one["name"]: one for one in status["servers"]}
                return {name: counts_of(pid)["qp"] - sum(
                    one["peer_role"] in ("server", "coordinator") for one in sessions[name]["open_sessions"])
                        for name, pid in survivors.items()}

            with Oracle(cluster, "called", tablets=6, rate=40, workers=4, clients=1) as oracle:
                oracle.ask("resume")
                deaths = 0

                def die_times(count):
                    nonlocal deaths
                    for _ in range(count):
                        die(deaths)
                        deaths += 1

                die_times(SERVER_DEATHS_TO_WARM_UP)
                # Pools and the heap keep what was once needed at a time: of 40 deaths a few made them 2 to 6 MB larger,
                # most nothing. What each death left would be as many regions as deaths, and the buffers of each of
                # its sessions are 1 MB. Where six deaths do not tell the one from the other, more of them do.
                begin = held()
                for number in range(1, SERVER_DEATH_ROUNDS_MAX + 1):
                    die_times(SERVER_DEATHS)
                    counted = number * SERVER_DEATHS
                    end = held()
                    print(f"{counted} deaths of a server\nbefore {begin}\nafter  {end}")
                    grown = [name for name, now in end.items()
                             if now["mr"] >= begin[name]["mr"] + 2 + counted // 2
                             or now["kB"] >= begin[name]["kB"] + 8192 + counted * 900]
                    for name, now in end.items():
                        for kind in ("ctx", "pd", "cq", "srq"):
                            self.assertEqual(now[kind], begin[name][kind], (name, kind))
                    if not grown:
                        break
                verdict = oracle.ask("verify", 60000, seconds_max=90)
            self.assertEqual(verdict["violations"], [])
            self.assertGreater(verdict["calls"], 10 * SERVER_DEATHS)
            wait_for(without_peer, lambda counts: set(counts.values()) == {0}, 60)
            self.assertEqual(grown, [], f"after {counted} deaths")
            last = deaths - 1
            found = {key: value.split()[0] for key, (value, _) in cluster.export("t").items()}
            self.assertEqual(found, {f"key {i}": str(last) for i in range(60)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
