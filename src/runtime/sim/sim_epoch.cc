#include "runtime/sim/sim_epoch.h"

#include "base/check.h"

namespace ramcore::runtime {

SimRcu::Reader& SimRcu::at(RcuReader reader) {
  const auto index = static_cast<uint32_t>(reader);
  RC_CHECK(index < readers_.size() && readers_[index].registered);
  return readers_[index];
}

RcuReader SimRcu::registerThread() {
  uint32_t index = 0;
  while (index < readers_.size() && readers_[index].registered) ++index;
  if (index == readers_.size()) readers_.emplace_back();
  readers_[index] = Reader{.registered = true, .online = true, .awaited = false};
  return RcuReader{index};
}

void SimRcu::unregisterThread(RcuReader reader) { at(reader) = Reader{}; }

void SimRcu::quiescent(RcuReader reader) { at(reader).awaited = false; }

void SimRcu::offline(RcuReader reader) {
  Reader& state = at(reader);
  state.online = false;
  state.awaited = false;
}

void SimRcu::online(RcuReader reader) { at(reader).online = true; }

void SimRcu::beginGracePeriod() {
  for (Reader& reader : readers_) reader.awaited = reader.online;
}

uint32_t SimRcu::awaitedReaders() const {
  uint32_t awaited = 0;
  for (const Reader& reader : readers_) awaited += reader.awaited ? 1 : 0;
  return awaited;
}

}  // namespace ramcore::runtime
