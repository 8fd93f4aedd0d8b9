#include "tools/server/server_flags.h"

#include <cstdint>

#include "tools/support/cluster_flags.h"
#include "tools/support/command_line.h"
#include "tools/support/display.h"

// The help has the flags in the order in which they are declared.
namespace ramcore::tools {
namespace {

constexpr uint32_t kScrubEverySecondsMax = 366 * 24 * 3600;

void addMemoryFlags(Command& app, ServerSettings& settings) {
  app.addOption("--memory", settings.memory_bytes,
                "Memory for objects, in bytes or with a unit (KiB, MiB, GiB), in steps of 64KiB; auto: what fits into "
                "the free memory of the machine and its control group. On top of it come the index, about 13 bytes for "
                "each object (at most half of --memory, or 64MiB if that is more), and some bookkeeping")
      .environment("RAMCORE_MEMORY")
      .asSizeOrAuto(settings.memory_is_auto)
      .showDefault(formatSize(settings.memory_bytes));
  app.addFlag(
         "--hugetlb", settings.reserved_huge_pages,
         "Take --memory from the huge pages of 2 MiB that the machine has set aside (vm.nr_hugepages), and not from "
         "those that the kernel happens to have at that moment: their number is certain, and nothing else can use them")
      .environment("RAMCORE_HUGETLB");
  app.addOption("--numa-node", settings.numa_node,
                "Run on the processors of this NUMA node, with all memory there; best the node of the network card. "
                "Not given: anywhere. On a machine with several nodes start one server for each")
      .environment("RAMCORE_NUMA_NODE")
      .inRange(0, 1023);
  app.addOption("--pin-deadline-ms", settings.process.pin_deadline_ms,
                "How long an answer may hold memory of the log, in milliseconds; what its reader has not taken by then "
                "is copied")
      .environment("RAMCORE_PIN_DEADLINE_MS")
      .inRange(1, 10000);
  app.addOption("--pinned-bytes", settings.pinning.pinned_bytes_max,
                "Memory of the log that answers may hold, in bytes or with a unit; beyond it values are copied. Never "
                "more than an eighth of --memory")
      .environment("RAMCORE_PINNED_BYTES")
      .asSize()
      .showDefault(formatSize(settings.pinning.pinned_bytes_max));
  app.addOption(
         "--cleaners-max", settings.cleaners_max,
         "Workers that may clean memory at the same time when it runs short, never all of them; 0: half of --workers")
      .environment("RAMCORE_CLEANERS_MAX")
      .inRange(0, 32);
}

void addStorageFlags(Command& app, ServerSettings& settings) {
  app.addOption("--storage", settings.storage,
                "Directory for replicas of what other servers hold; made if it is not there. It belongs to one server")
      .environment("RAMCORE_STORAGE");
  app.addOption("--storage-bytes", settings.storage_bytes,
                "Space for such replicas, in bytes or with a unit, taken at the first start; 0: keep none. Not given: "
                "an eighth more than is needed where all servers are alike, some 4.5 times --memory for --replicas 3, "
                "1.5 times for --replicas 1")
      .environment("RAMCORE_STORAGE_BYTES")
      .asSize()
      .showDefault("what --memory and --replicas need");
  app.addOption("--storage-writes", settings.storage_writes,
                "Which thread writes replicas into the page cache: auto (the dispatch thread while the disk is quick), "
                "inline (always the dispatch thread), handoff (always a thread of its own: no read ever waits for the "
                "disk, and each write takes longer by two changes of threads)")
      .environment("RAMCORE_STORAGE_WRITES")
      .oneOf({"auto", "inline", "handoff"});
}

void addScrubFlags(Command& app, ServerSettings& settings) {
  app.addOption("--scrub-bytes-per-s", settings.scrub_bytes_per_s,
                "How fast the replicas are read again to find out whether the disk has kept them, in bytes or with a "
                "unit; 0: never")
      .environment("RAMCORE_SCRUB_BYTES_PER_S")
      .asSize()
      .showDefault(formatSize(settings.scrub_bytes_per_s));
  app.addOption(
         "--scrub-every-s", settings.scrub_every_s,
         "Seconds from the beginning of one such pass over the replicas to that of the next, unless it takes longer")
      .environment("RAMCORE_SCRUB_EVERY_S")
      .inRange(1U, kScrubEverySecondsMax);
  app.addOption("--scrub-memory-bytes-per-s", settings.scrub_memory_bytes_per_s,
                "How fast the objects in --memory are verified, in bytes or with a unit; what is damaged is restored "
                "from its replicas; 0: never")
      .environment("RAMCORE_SCRUB_MEMORY_BYTES_PER_S")
      .asSize()
      .showDefault(formatSize(settings.scrub_memory_bytes_per_s));
  app.addOption("--scrub-memory-every-s", settings.scrub_memory_every_s,
                "Seconds from the beginning of one pass over --memory to that of the next, unless it takes longer")
      .environment("RAMCORE_SCRUB_MEMORY_EVERY_S")
      .inRange(1U, kScrubEverySecondsMax);
}

void addReplicationFlags(Command& app, ServerSettings& settings) {
  app.addOption(
         "--replicas", settings.replication.replicas,
         "Number of other servers on which everything that this one holds is kept; 0: nothing survives this server")
      .environment("RAMCORE_REPLICAS")
      .inRange(0, 8);
  app.addOption("--min-replicas", settings.replication.min_replicas,
                "Writes are refused while fewer other servers than this live to keep "
                "replicas; not given: 1 with --replicas 1")
      .environment("RAMCORE_MIN_REPLICAS")
      .inRange(1, 8);
  app.addFlag(
         "--local-replica", settings.replication.local_replica,
         "Keep one replica, in the storage of this very server: it survives a restart, not the loss of the machine")
      .environment("RAMCORE_LOCAL_REPLICA");
  app.addOption("--failure-domain", settings.failure_domain,
                "Name of the rack, power supply or machine: replicas go to different ones where there are several")
      .environment("RAMCORE_FAILURE_DOMAIN");
}

}  // namespace

void addServerFlags(Command& app, ServerSettings& settings) {
  addProcessFlags(app, settings.process);
  addCoordinatorFlag(app, settings.coordinators);
  addMemoryFlags(app, settings);
  addStorageFlags(app, settings);
  addScrubFlags(app, settings);
  addReplicationFlags(app, settings);
  app.addOption("--name", settings.name, "Name of this server for people").environment("RAMCORE_NAME");
}

}  // namespace ramcore::tools
