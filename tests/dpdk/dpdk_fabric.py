"""Clusters whose processes have nothing but Ethernet ports of DPDK: memifs from each process to each other one, or an
interface for each in a network namespace of its own, at a bridge (tests/dpdk/run makes them)."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
from cluster_harness import Cluster, run  # noqa: E402

DAEMONS = ("coordinator", "s1", "s2", "s3", "s4")
TOOLS = ("tool", "load")
SECRET = "a secret for this machine alone"


class DpdkCluster(Cluster):
    """`faults`: done to all frames that arrive anywhere (--dpdk-faults). `flags`: of all processes; `flags_of` those of
    one, by its place, in addition."""

    def __init__(self, *arguments, faults="", flags=(), flags_of=None, **options):
        super().__init__(*arguments, secret=SECRET, **{"transports": ("dpdk",), **options})
        self.places = DAEMONS + TOOLS
        self.faults = faults
        self.flags = list(flags)
        self.flags_of = flags_of or {}
        self.is_loading = False

    def tool_name(self):
        return "load" if self.is_loading else "tool"

    def start(self, name, *arguments, **options):
        """In the background, at a place of its own: one at a time."""
        self.is_loading = True
        try:
            return super().start(name, *arguments, **options)
        finally:
            self.is_loading = False

    def load_command(self, program):
        return self.process_prefix("load") + super().load_command(program) + self.process_flags("load")

    def number(self, name):
        return self.places.index(name)

    def address(self, name):
        return f"02:00:00:00:01:{self.number(name):02x}"

    def process_flags(self, name):
        flags = ["--dpdk-address", self.address(name)]
        if self.faults:
            flags += ["--dpdk-faults", f"{self.faults},seed={self.number(name) + 1}"]
        for device in self.devices(name):
            flags += ["--dpdk-port", device]
        return flags + self.flags + list(self.flags_of.get(name, ()))


class MemifCluster(DpdkCluster):
    """A memif joins two processes: each has a port for each other one."""

    def devices(self, name):
        for other in self.places:
            if other == name:
                continue
            listener, caller = sorted((name, other), key=self.number)
            role = "server" if name == listener else "client"
            yield (f"net_memif{self.number(other)},role={role},id={self.number(caller)},socket-abstract=no,"
                   f"socket={self.path(listener + '.memif')}")


class PacketCluster(DpdkCluster):
    """Each process in its own network namespace, with one interface."""

    def process_prefix(self, name):
        return ["ip", "netns", "exec", f"{os.environ['RAMCORE_NAMESPACES']}{self.number(name) + 1}"]

    def set_mtu(self, name, mtu):
        """Of both ends of that process's wire."""
        run(["ip", "link", "set", f"rcn{self.number(name) + 1}", "mtu", str(mtu)])
        run([*self.process_prefix(name), "ip", "link", "set", "rc0", "mtu", str(mtu)])

    def devices(self, _name):
        yield "net_af_packet0,iface=rc0,qdisc_bypass=1"
