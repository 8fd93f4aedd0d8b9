#include "sim/cluster/accounting_check.h"

#include "accounting/log_recount.h"

namespace ramcore::sim {

std::vector<std::string> checkAccounting(const master::Master& master, uint64_t& recounted) {
  if (master.log() == nullptr || !master.log()->headId()) return {};
  const auto refers = [&](log::EntryRef ref, const log::EntryView& entry) {
    if (entry.type() == log::EntryType::ResultRecord) {
      const auto record = entry.payloadAs<log::ResultRecordPayload>();
      return master.results().isLive(record.client, record.sequence, ref);
    }
    const KeyHash hash = hashKey(entry.table(), entry.key());
    return master.store().lookup(entry.table(), hash, entry.key()).ref == ref;
  };
  const auto awaits = [&](log::EntryRef ref, const log::CarriedResult& carried) {
    return master.results().isLive(carried.client, carried.sequence, ref);
  };
  const accounting::Recount recount = accounting::recount(*master.log(), refers, awaits);
  recounted += recount.is_quiet ? 1 : 0;
  std::vector<std::string> lines;
  for (const std::string& difference : recount.differences) {
    lines.push_back("log of server " + std::to_string(master.id().value) + ": " + difference);
  }
  if (recount.is_quiet && recount.results != master.results().recordCount()) {
    lines.push_back("log of server " + std::to_string(master.id().value) + " has " + std::to_string(recount.results) +
                    " results, the table " + std::to_string(master.results().recordCount()));
  }
  return lines;
}

}  // namespace ramcore::sim
