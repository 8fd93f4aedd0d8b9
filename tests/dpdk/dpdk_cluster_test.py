#!/usr/bin/env python3
"""A cluster whose processes have nothing but Ethernet ports of DPDK: what is written is there after moves under load and
after the death of a server, also where the network loses, copies, reorders and changes frames. Run by tests/dpdk/run."""

import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "walker"))
from adapter_scenario import check_objects, live_through, write_objects  # noqa: E402
from cluster_harness import BIN_DIR, run, wait_for  # noqa: E402
from dpdk_fabric import MemifCluster, PacketCluster  # noqa: E402
from metrics_endpoint import free_port, scrape, scrape_inside  # noqa: E402
from sent_ledger import SentLedger  # noqa: E402

LOG_BYTES_LEAST = 48 << 20  # half of what servers here have; nothing else that DPDK knows of ours comes near


def sent(port):
    """What the server has given to its ports, and what became of the values that it lent for that."""
    metrics = scrape(port)[0]

    def of_dpdk(name):
        return int(metrics[f'ramcore_sent_{name}_total{{transport="dpdk"}}'])
    return {"payload": of_dpdk("payload_bytes"), "gathered": of_dpdk("gathered_bytes"), "pieces": of_dpdk("chunks"),
            "copied": of_dpdk("long_chunks_copied"), "lent": int(metrics["ramcore_pins_total"]),
            "back": int(metrics["ramcore_pins_ended_total"])}


class Scenario(unittest.TestCase):
    """The life of a cluster that has nothing but ports."""

    def run_cluster(self, fabric, faults=""):
        ports = {name: free_port() for name in ("s1", "s2", "s3", "s4")}
        with fabric(servers=4, replicas=2, memory="96MiB", storage="384MiB", death_after_ms=8000, faults=faults,
                    flags_of={name: ["--metrics", f"127.0.0.1:{port}"] for name, port in ports.items()}) as cluster:
            status = cluster.wait_status(lambda now: now["servers"] and all(one["answers"] for one in now["servers"]))
            for server in status["servers"]:
                self.assertIn("dpdk", server["transports"])
                self.assertTrue(all(locator.startswith("dpdk://") for locator in server["locators"]), server)
            # Sessions between servers are counted as well: servers can reach each other over nothing else.
            for process in [*status["servers"], status["coordinator"]]:
                self.assertGreater(process["sessions"], 0, process)
                self.assertEqual(process["sessions_by_transport"]["dpdk"], process["sessions"], process)
            # Some values take many packets.
            live_through(self, cluster, long_bytes=60000)
            for daemon in [cluster.coordinator, *cluster.servers.values()]:
                self.assertNotIn("no honest peer", daemon.log())
                self.assertEqual("frames that arrive are disturbed" in daemon.log(), bool(faults))
            self.judge_packets([scrape_inside(cluster.process_prefix(name), ports[name])[0] for name in cluster.servers], faults)

    def judge_packets(self, metrics, faults):
        """Servers tell what the network does: of some thousands of packets, what is lost is sent again, what comes twice is
        known, and what was changed is not believed. All together, because of some there are few."""
        def of_dpdk(name):
            return sum(one[f'ramcore_packets_{name}_total{{transport="dpdk"}}'] for one in metrics)
        counts = {name: of_dpdk(name) for name in ("sent", "resent", "copied", "unproven")}
        self.assertGreater(counts["sent"], 5000, counts)
        print(counts)
        if not faults:
            # (Some are sent again all the same: to the server that was killed, and where the machine is busy.)
            self.assertEqual(counts["unproven"], 0, counts)
            return
        rates = {name: float(rate) / 100 for name, rate in (rate.split("=") for rate in faults.split(","))}
        for name, rate in (("resent", "loss"), ("copied", "duplicate"), ("unproven", "corrupt")):
            # The faults are of what arrives; what is sent is about as much.
            self.assertGreater(counts[name], counts["sent"] * rates[rate] / 20, counts)


class DpdkClusterTest(Scenario):
    def test_multi_reads_are_sent_from_the_log(self):
        """All but heads and the ends of frames, as the driver is given it and as the server itself counts; a build that copies
        once more (the mutations) is found out, also if it counts as if it did not."""
        with MemifCluster(servers=1, autostart=False) as cluster:
            cluster.start_coordinator()
            port = free_port()
            ledger = SentLedger(BIN_DIR, "dpdk", cluster.path("sent"), LOG_BYTES_LEAST)
            cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}"], environment=ledger.environment)
            load = ["rcbench", "--transport", "dpdk", "--records", 1000, "--value-bytes", 1000, "--json"]
            cluster.run(*load, "--load-only")
            before, walked = sent(port), ledger.counts()
            report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--batch", 16, "--outstanding", 4,
                                            "--warmup-s", 0, "--duration-s", 3).stdout)
            after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
            payload, gathered, pieces, copied, lent, _ = (after[name] - before[name] for name in after)
            ledger.judge(self, walked, after["lent"] - before["lent"], 1000, after["back"] - before["back"])
            print(f"{report['operations']} multi-reads of 16 x 1000 B: {payload} B given to ports, of them "
                  f"{100 * (payload - gathered) / payload:.2f} % copied by us; {pieces} pieces from the log, {copied} long "
                  f"ones copied; {lent} values lent and given back")
            self.assertEqual(report["errors"], {})
            self.assertLess((payload - gathered) / payload, 0.05)
            self.assertEqual(copied, 0)
            self.assertGreater(lent, 16 * 50)
            # The end of a frame cuts values in two.
            self.assertGreaterEqual(pieces, lent)

    def test_a_server_that_is_not_told_where_listens_over_it_too(self):
        with MemifCluster(servers=0, transports=None, memory="64MiB") as cluster:
            server = cluster.start_server("s1")
            locators = {locator.split("://")[0]: locator for locator in server.locators}
            self.assertLessEqual({"tcp", "shm", "dpdk"}, set(locators))
            self.assertEqual(locators["dpdk"], f"dpdk://{cluster.address('s1')}@1")
            cluster.rc("create", "t")
            cluster.rc("put", "t", "key", "value")
            os.unlink(locators["shm"][len("shm://"):])  # as from another machine
            self.assertEqual(cluster.rc("get", "t", "key").strip(), "value")

    def pieces_of_a_read(self, cluster):
        """In how many pieces a value of 8000 B leaves the log of a server."""
        cluster.start_coordinator()
        port = free_port()
        cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}"])
        cluster.rc("create", "t")
        value = "".join(f"{i:08}" for i in range(1000))
        cluster.rc("put", "t", "k", value)
        before = sent(port)
        for _ in range(3):
            self.assertEqual(cluster.rc("get", "t", "k").strip(), value)
        after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
        self.assertEqual(after["lent"] - before["lent"], 3)
        return (after["pieces"] - before["pieces"]) / 3

    @staticmethod
    def mtus(**of_places):
        return {name: ["--dpdk-mtu", str(mtu), "--dpdk-memory-mb", "256"] for name, mtu in of_places.items()}

    def test_a_jumbo_frame_takes_what_six_others_do(self):
        for of_server, of_tool, pieces in ((9000, 9000, 1), (9000, 1500, 6), (1500, 9000, 6)):
            with self.subTest(server=of_server, tool=of_tool), MemifCluster(
                    autostart=False, flags_of=self.mtus(coordinator=9000, s1=of_server, tool=of_tool)) as cluster:
                self.assertEqual(self.pieces_of_a_read(cluster), pieces)

    def test_jumbo_frames_over_a_bridge(self):
        places = ("coordinator", "s1", "tool")
        with PacketCluster(autostart=False, flags_of=self.mtus(**dict.fromkeys(places, 9000))) as cluster:
            refused = run(cluster.coordinator_arguments(), check=False)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("does not take an MTU of 9000: its interface has 1500; ip link set dev", refused.stderr)
            try:
                for name in places:
                    cluster.set_mtu(name, 9000)
                cluster.start_coordinator()
                cluster.start_server("s1")
                cluster.rc("create", "t")
                cluster.rc("put", "t", "k", "x" * 8000)
                with self.wire_of(cluster, "tool") as wire:
                    self.assertEqual(cluster.rc("get", "t", "k").strip(), "x" * 8000)
                    lengths = [len(frame) for frame in self.frames(wire)]
                # All of the answer is one frame, and no frame is longer.
                self.assertEqual(sum(length > 1600 for length in lengths), 1, lengths)
                self.assertTrue(8000 < max(lengths) <= 9014, lengths)
            finally:
                for name in places:
                    cluster.set_mtu(name, 1500)

    def test_a_port_without_room_for_a_frame_is_refused(self):
        with MemifCluster(autostart=False, flags_of=self.mtus(coordinator=9000)) as cluster:
            arguments = cluster.coordinator_arguments()
            arguments[arguments.index("--dpdk-port") + 1] += ",bsize=4096"
            refused = run(arguments, check=False)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("bsize=4096 has no room for frames of 9014 bytes; leave it out, or say bsize=16384", refused.stderr)

    def test_a_server_sends_by_the_thresholds_of_its_port(self):
        """As of rcnic calibrate: values of 1000 B are sent from where they are, or copied; those of others are ignored."""
        for threshold, is_gathered in ((500, True), (4000, False)):
            with self.subTest(threshold=threshold), MemifCluster(servers=1, autostart=False) as cluster:
                file = cluster.path("gather")
                with open(file, "w", encoding="utf-8") as out:
                    out.write(f"[dpdk:net_af_packet]\ncopy_below_bytes = 1\n[dpdk:net_memif]\ncopy_below_bytes = {threshold}\n")
                cluster.start_coordinator()
                port = free_port()
                server = cluster.start_server("s1", extra=["--metrics", f"127.0.0.1:{port}", "--gather-file", file])
                self.assertIn(f"as measured of net_memif, chunks below {threshold} B are copied", server.log())
                load = ["rcbench", "--transport", "dpdk", "--records", 100, "--value-bytes", 1000, "--json"]
                cluster.run(*load, "--load-only")
                before = sent(port)
                report = json.loads(cluster.run(*load, "--no-load", "--workload", "C", "--operations", 100).stdout)
                self.assertEqual(report["errors"], {})
                after = wait_for(lambda: sent(port), lambda now: now["lent"] == now["back"], 10)
                gathered, lent = after["gathered"] - before["gathered"], after["lent"] - before["lent"]
                if is_gathered:
                    self.assertGreaterEqual(gathered, 100 * 900)  # the end of a frame may leave some to be copied
                    self.assertGreaterEqual(lent, 100)
                else:
                    self.assertEqual((gathered, lent), (0, 0))

    @staticmethod
    def wire_of(cluster, name):
        """Sees all that the process sends and is sent: the other end of its wire (tests/dpdk/run)."""
        wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        # It is looked at when all is over.
        wire.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), 16 << 20)
        wire.bind((f"rcn{cluster.number(name) + 1}", 0))
        wire.settimeout(0.3)
        return wire

    @staticmethod
    def frames(wire):
        """What has come by, and is the protocol's."""
        try:
            while True:
                frame = wire.recv(16384)
                if frame[12:14] == b"\x88\xb5":
                    yield frame
        except TimeoutError:
            pass

    def greetings(self, wire):
        """What those that come by say about MACs: {address of the speaker: set of 0 and 1}."""
        said = {}
        for frame in self.frames(wire):
            if frame[15] == 4:
                said.setdefault(frame[6:12].hex(":"), set()).add(frame[82])
        return said

    def test_macs_are_left_out_where_nobody_wants_them(self):
        """Where either side does they are sent: nobody is refused for it, and nobody is talked out of them."""
        for daemons_want, tool_wants in ((False, False), (False, True), (True, False)):
            with self.subTest(daemons=daemons_want, tool=tool_wants):
                flags_of = {name: [] if wants else ["--no-dpdk-seal"] for name, wants in
                            (("coordinator", daemons_want), ("s1", daemons_want), ("s2", daemons_want), ("tool", tool_wants))}
                with PacketCluster(servers=2, replicas=1, flags_of=flags_of) as cluster:
                    cluster.rc("create", "t", "--tablets", "2")  # one for each of the servers
                    with self.wire_of(cluster, "tool") as wire:
                        write_objects(cluster, "t", 1, 20000)
                        said = self.greetings(wire)
                    check_objects(self, cluster, "t", 1)
                    of_tool = said.pop(cluster.address("tool"))
                    self.assertEqual(of_tool, {int(tool_wants)})
                    self.assertEqual(set(said), {cluster.address(name) for name in ("coordinator", "s1", "s2")})
                    self.assertEqual(set().union(*said.values()), {int(daemons_want)})
                    for daemon in [cluster.coordinator, *cluster.servers.values()]:
                        self.assertNotIn("no honest peer", daemon.log())

    def test_a_coordinator_is_found_by_its_number(self):
        """Whoever listens with that number at the bridge answers, wherever it is; another number is nobody's."""
        with PacketCluster(autostart=False) as cluster:
            cluster.start_coordinator()
            number = cluster.coordinator_locator().rpartition("@")[2]

            def call(locator, *arguments, check=True):
                command = cluster.arguments("ramcore", *arguments)
                command[command.index(cluster.coordinator_locator())] = locator
                return run(command, check=check)
            self.assertEqual(call(f"dpdk://any@{number}", "list").stdout, "")
            missing = call(f"dpdk://any@{int(number) + 1}", "--timeout-ms", "500", "list", check=False)
            self.assertEqual(missing.returncode, 1, missing.stderr)
            self.assertRegex(missing.stderr, r"no (coordinator answers|answer)")

    def test_over_memifs(self):
        self.run_cluster(MemifCluster)

    def test_over_a_bridge_that_loses_5_per_cent(self):
        self.run_cluster(PacketCluster, "loss=5,duplicate=5,reorder=5,corrupt=1")


class DpdkLossesTest(Scenario):
    """The same with other rates: for the long tier."""

    def test_over_a_bridge(self):
        self.run_cluster(PacketCluster)

    def test_over_a_bridge_that_loses_1_per_cent(self):
        self.run_cluster(PacketCluster, "loss=1,duplicate=1,reorder=1,corrupt=0.1")

    def test_over_a_bridge_that_loses_20_per_cent(self):
        self.run_cluster(PacketCluster, "loss=20,duplicate=10,reorder=10,corrupt=1")


if __name__ == "__main__":
    unittest.main(verbosity=2)
