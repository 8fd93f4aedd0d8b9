"""What a server has handed to its device, as a library says that was loaded in front of the device's (verbs_walker.cc,
dpdk_walker.cc): sums over the gather lists and chains themselves, by address. Nothing in the server counts for it."""

import os
import struct

NAMES = ("log_regions", "messages", "payload_bytes", "log_bytes", "log_pieces", "stray_pieces", "stray_bytes_max",
         "again_bytes")


class SentLedger:
    """`walker`: verbs or dpdk. `log_bytes`: whatever is registered and has as many bytes is the log."""

    def __init__(self, bin_dir, walker, path, log_bytes):
        self.path = path
        self.library = os.path.join(os.path.abspath(bin_dir), "..", "walkers", f"lib{walker}_walker.so")
        if not os.path.exists(self.library):
            raise FileNotFoundError(f"{self.library} is missing; build the target {walker}_walker")
        self.environment = {"LD_PRELOAD": self.library, "RAMCORE_SENT_LEDGER": path,
                            "RAMCORE_SENT_LOG_BYTES": str(log_bytes)}

    def counts(self):
        with open(self.path, "rb") as file:
            return dict(zip(NAMES, struct.unpack(f"<{len(NAMES)}Q", file.read(8 * len(NAMES)))))

    def judge(self, test, before, values, value_bytes, released):
        """Of `values` values of so many bytes that were sent since `before`, each once: all were sent from the log, and nothing
        else of any length; `released`: so many were given back. A copy is found in two ways, and each says so by itself."""
        after = self.counts()
        sums = {name: after[name] - before[name] for name in NAMES}
        payload, from_log = sums["payload_bytes"], sums["log_bytes"]
        print(f"as the device was given it: {payload} B, of them {100 * (payload - from_log) / payload:.2f} % not in the log; "
              f"{sums['log_pieces']} pieces in the log; {sums['stray_pieces']} long ones elsewhere; {values} values of "
              f"{value_bytes} B, {released} of them given back")
        test.assertEqual(after["log_regions"], 1, "the device has to know one log")
        with test.subTest("the share of what was copied"):
            test.assertLess((payload - from_log) / payload, 0.05, "as the device was given it: too much was copied")
        with test.subTest("where long pieces are"):
            test.assertEqual(sums["stray_pieces"], 0, "as the device was given it: long pieces outside of the log")
        test.assertGreater(values, 16 * 50)
        test.assertEqual(released, values)
        once = from_log - sums["again_bytes"]
        test.assertLessEqual(once, values * value_bytes)
        test.assertGreater(once, 0.95 * values * value_bytes, "as the device was given it: values are missing")
        test.assertGreaterEqual(sums["log_pieces"], values)
        return sums
