#include "tools/rcmigrate/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace ramcore::rcmigrate {
namespace {

// No part of a tablet that is cut off is smaller than this share of it.
constexpr double kPartLeast = 1.0 / 16;
constexpr double kPartMax = 0.5;
// Bounds the work whatever the input is. Each step gains something, so real plans are far below.
constexpr size_t kStepsMax = 100'000;

// A share of a range of hashes, from its beginning. At least one hash stays on each side.
KeyHash hashAt(const HashRange& range, double share) {
  const uint64_t width = range.last - range.first;
  const auto offset = static_cast<uint64_t>(static_cast<double>(width) * share);
  return range.first + std::clamp<uint64_t>(offset, 1, width);
}

double shareBelow(const HashRange& range, KeyHash hash) {
  return static_cast<double>(hash - range.first) / (static_cast<double>(range.last - range.first) + 1);
}

struct Cut {
  KeyHash at = 0;
  double share = 0;       ///< of the measure, below `at`
  double size_share = 0;  ///< of bytes and objects
};

/// Where to cut so that about `wanted` of the load lies below. Calls to one key cannot be cut apart.
std::optional<Cut> cutBySample(const PlanTablet& tablet, double wanted) {
  const std::vector<KeyHash>& sample = tablet.sample;
  const size_t position = std::min(static_cast<size_t>(wanted * static_cast<double>(sample.size())), sample.size() - 1);
  std::optional<Cut> best;
  for (const auto at :
       {std::ranges::lower_bound(sample, sample[position]), std::ranges::upper_bound(sample, sample[position])}) {
    if (at == sample.end() || *at <= tablet.range.first) continue;
    const double share = static_cast<double>(at - sample.begin()) / static_cast<double>(sample.size());
    if (share < kPartLeast || share > 1 - kPartLeast) continue;
    const bool is_nearer = !best || std::abs(share - wanted) < std::abs(best->share - wanted);
    if (is_nearer) best = Cut{*at, share, shareBelow(tablet.range, *at)};
  }
  return best;
}

class Planner {
 public:
  Planner(const std::vector<PlanServer>& servers, std::vector<PlanTablet> tablets, Measure measure, double seconds)
      : tablets_(std::move(tablets)), measure_(measure), seconds_(seconds) {
    for (const PlanServer& server : servers) {
      const double weight = measure == Measure::Load ? 1 : static_cast<double>(server.bytes_max);
      servers_[server.id] = {.bytes = static_cast<double>(server.bytes),
                             .bytes_max = static_cast<double>(server.bytes_max),
                             .weight = weight};
    }
    for (const PlanTablet& tablet : tablets_) servers_.at(tablet.owner).value += valueOf(tablet);
    for (auto& [id, server] : servers_) server.value_before = server.value;
  }

  Plan level();
  Plan drain(ServerId from);

 private:
  struct Server {
    double bytes = 0;
    double bytes_max = 0;
    double weight = 0;
    double value = 0;
    double value_before = 0;
    double level() const { return value / weight; }
  };
  struct Candidate {
    size_t tablet = 0;
    ServerId to;
    double gain = 0;
  };

  double valueOf(const PlanTablet& tablet) const {
    switch (measure_) {
      case Measure::Bytes:
        return static_cast<double>(tablet.bytes);
      case Measure::Objects:
        return static_cast<double>(tablet.objects);
      case Measure::Load:
        return tablet.load;
    }
    return 0;
  }
  double mean() const {
    double value = 0;
    double weight = 0;
    for (const auto& [id, server] : servers_) {
      value += server.value;
      weight += server.weight;
    }
    return weight > 0 ? value / weight : 0;
  }
  static double roomOf(const Server& to) { return kFullMax * to.bytes_max - to.bytes; }
  static bool hasRoom(const Server& to, double bytes) { return bytes <= roomOf(to); }
  // By how much the fuller of two servers comes down if `value` goes from one to the other.
  static double gainOf(const Server& from, const Server& to, double value) {
    const double after = std::max((from.value - value) / from.weight, (to.value + value) / to.weight);
    return from.level() - after;
  }
  // By how much it comes down if both are made level.
  static double mostOf(const Server& from, const Server& to) {
    return from.level() - (from.value + to.value) / (from.weight + to.weight);
  }
  // What levelling two servers has to gain to be worth it. Below that, chance may explain how their calls differ.
  double leastOf(const Server& from, const Server& to) const {
    if (measure_ != Measure::Load || seconds_ <= 0) return gain_least_;
    constexpr double kDeviations = 3;
    return std::max(gain_least_, kDeviations / 2 * std::sqrt((from.value + to.value) / seconds_));
  }
  // Whether to move `value` from one to the other. Small tablets gain little, and many of them gain something.
  bool isWorthIt(const Server& from, const Server& to, double value) const {
    const double least = leastOf(from, to);
    if (mostOf(from, to) < least) return false;
    constexpr double kRounding = 1 - 1e-9;
    const double gain = gainOf(from, to, value);
    return gain > 0 && gain >= std::min(least, kRounding * value / from.weight);
  }
  std::vector<ServerId> fullestFirst() const;
  std::optional<Candidate> bestMove(ServerId from) const;
  bool cutFrom(ServerId from);
  std::vector<size_t> largeOn(ServerId server) const;
  bool cutBetween(size_t index, ServerId to);
  std::optional<Cut> cutOf(const PlanTablet& tablet, double wanted) const;
  void cut(size_t index, const Cut& where);
  void move(size_t index, ServerId to);
  void leaveHotKeys();
  void drainTablet(size_t index);
  Plan take();

  std::map<ServerId, Server> servers_;
  std::vector<PlanTablet> tablets_;
  const Measure measure_;
  const double seconds_;  // in which calls were counted; 0: not known
  double gain_least_ = 0;
  Plan plan_;
};

std::vector<ServerId> Planner::fullestFirst() const {
  std::vector<ServerId> order;
  for (const auto& [id, server] : servers_) order.push_back(id);
  std::ranges::sort(order, [this](ServerId a, ServerId b) {
    const double level_a = servers_.at(a).level();
    const double level_b = servers_.at(b).level();
    return level_a > level_b || (level_a == level_b && a < b);
  });
  return order;
}

std::optional<Planner::Candidate> Planner::bestMove(ServerId from) const {
  std::optional<Candidate> best;
  for (size_t i = 0; i < tablets_.size(); ++i) {
    const PlanTablet& tablet = tablets_[i];
    if (tablet.owner != from || !tablet.may_move) continue;
    for (const auto& [id, server] : servers_) {
      if (id == from || id == tablet.came_from || !hasRoom(server, static_cast<double>(tablet.bytes))) continue;
      if (!isWorthIt(servers_.at(from), server, valueOf(tablet))) continue;
      const double gain = gainOf(servers_.at(from), server, valueOf(tablet));
      const bool is_better =
          !best || gain > best->gain || (gain == best->gain && tablet.bytes < tablets_[best->tablet].bytes);
      if (is_better) best = Candidate{i, id, gain};
    }
  }
  return best;
}

std::optional<Cut> Planner::cutOf(const PlanTablet& tablet, double wanted) const {
  if (tablet.range.first == tablet.range.last) return std::nullopt;
  const double share = std::clamp(wanted, kPartLeast, kPartMax);
  if (measure_ == Measure::Load && tablet.sample.size() >= kSampleLeast) return cutBySample(tablet, share);
  const KeyHash at = hashAt(tablet.range, share);
  return Cut{at, shareBelow(tablet.range, at), shareBelow(tablet.range, at)};
}

void Planner::cut(size_t index, const Cut& where) {
  PlanTablet upper = tablets_[index];
  PlanTablet& lower = tablets_[index];
  plan_.steps.push_back(
      {.kind = PlanStep::Kind::Split, .table = lower.table, .range = lower.range, .at = where.at, .from = lower.owner});
  lower.bytes = static_cast<uint64_t>(static_cast<double>(lower.bytes) * where.size_share);
  lower.objects = static_cast<uint64_t>(static_cast<double>(lower.objects) * where.size_share);
  lower.load *= measure_ == Measure::Load ? where.share : where.size_share;
  upper.bytes -= lower.bytes;
  upper.objects -= lower.objects;
  upper.load -= lower.load;
  lower.range.last = where.at - 1;
  upper.range.first = where.at;
  const auto middle = std::ranges::lower_bound(upper.sample, where.at);
  lower.sample.assign(upper.sample.begin(), middle);
  upper.sample.erase(upper.sample.begin(), middle);
  tablets_.push_back(std::move(upper));
}

void Planner::move(size_t index, ServerId to) {
  PlanTablet& tablet = tablets_[index];
  Server& source = servers_.at(tablet.owner);
  Server& destination = servers_.at(to);
  const auto bytes = static_cast<double>(tablet.bytes);
  source.bytes = std::max(0.0, source.bytes - bytes);
  destination.bytes += bytes;
  source.value -= valueOf(tablet);
  destination.value += valueOf(tablet);
  plan_.steps.push_back({.kind = PlanStep::Kind::Move,
                         .table = tablet.table,
                         .range = tablet.range,
                         .from = tablet.owner,
                         .to = to,
                         .bytes = tablet.bytes});
  tablet.came_from = tablet.owner;
  tablet.owner = to;
}

// Cuts off a part of a large tablet, as much as levels this server and an emptier one, and moves it there.
bool Planner::cutFrom(ServerId from) {
  const std::vector<size_t> large = largeOn(from);
  std::vector<ServerId> emptiest = fullestFirst();
  std::ranges::reverse(emptiest);
  for (const size_t index : large) {
    for (const ServerId to : emptiest) {
      if (to != from && cutBetween(index, to)) return true;
    }
  }
  return false;
}

std::vector<size_t> Planner::largeOn(ServerId server) const {
  std::vector<size_t> large;
  for (size_t i = 0; i < tablets_.size(); ++i) {
    const PlanTablet& tablet = tablets_[i];
    if (tablet.owner != server || !tablet.may_move || valueOf(tablet) <= 0) continue;
    if (valueOf(tablet) >= kCutShare * servers_.at(server).value) large.push_back(i);
  }
  std::ranges::sort(large, [this](size_t a, size_t b) {
    const double value_a = valueOf(tablets_[a]);
    const double value_b = valueOf(tablets_[b]);
    return value_a > value_b || (value_a == value_b && a < b);
  });
  return large;
}

bool Planner::cutBetween(size_t index, ServerId to) {
  const PlanTablet& tablet = tablets_[index];
  const Server& source = servers_.at(tablet.owner);
  const Server& destination = servers_.at(to);
  const double wanted = (source.level() - destination.level()) / (1 / source.weight + 1 / destination.weight);
  if (wanted <= 0 || to == tablet.came_from) return false;
  const std::optional<Cut> where = cutOf(tablet, wanted / valueOf(tablet));
  if (!where) return false;
  const double gain = gainOf(source, destination, where->share * valueOf(tablet));
  if (gain < leastOf(source, destination) ||
      !hasRoom(destination, where->size_share * static_cast<double>(tablet.bytes)))
    return false;
  cut(index, *where);
  move(index, to);
  return true;
}

void Planner::leaveHotKeys() {
  for (PlanTablet& tablet : tablets_) {
    const std::vector<KeyHash>& sample = tablet.sample;
    if (sample.size() < kSampleLeast) {
      // A server with very many tablets tells no samples, but which key is hot.
      if (tablet.has_hot_key) tablet.may_move = false;
      continue;
    }
    // A hash with half of the sample lies in its middle.
    const KeyHash hash = sample[sample.size() / 2];
    const auto equal = std::ranges::equal_range(sample, hash);
    const double share = static_cast<double>(equal.size()) / static_cast<double>(sample.size());
    if (share < kHotShare) continue;
    tablet.may_move = false;
    if (valueOf(tablet) < kCutShare * servers_.at(tablet.owner).value) continue;  // it does not matter
    plan_.hot_keys.push_back({tablet.id, tablet.table, hash, share});
  }
}

Plan Planner::level() {
  if (measure_ == Measure::Load) leaveHotKeys();
  gain_least_ = kGainLeast * mean();
  const auto improve = [&] {
    for (const ServerId from : fullestFirst()) {
      if (servers_.at(from).level() <= mean()) break;
      const std::optional<Candidate> best = bestMove(from);
      if (best) {
        move(best->tablet, best->to);
        return true;
      }
      if (cutFrom(from)) return true;
    }
    return false;
  };
  if (gain_least_ > 0) {
    while (plan_.steps.size() < kStepsMax && improve()) {
    }
  }
  return take();
}

// Moves a tablet to where it fits best; if it fits nowhere, in parts.
void Planner::drainTablet(size_t index) {
  const ServerId from = tablets_[index].owner;
  while (true) {
    const auto bytes = static_cast<double>(tablets_[index].bytes);
    std::optional<ServerId> emptiest;
    std::optional<ServerId> roomiest;
    for (const auto& [id, server] : servers_) {
      if (id == from) continue;
      if (!roomiest || roomOf(server) > roomOf(servers_.at(*roomiest))) roomiest = id;
      // An empty tablet fits also where nothing else does.
      if (bytes != 0 && !hasRoom(server, bytes)) continue;
      if (!emptiest || server.level() < servers_.at(*emptiest).level()) emptiest = id;
    }
    if (emptiest) return move(index, *emptiest);
    const double share = roomiest ? roomOf(servers_.at(*roomiest)) / std::max(bytes, 1.0) : 0;
    const std::optional<Cut> where = share >= kPartLeast ? cutOf(tablets_[index], share) : std::nullopt;
    if (!where || where->size_share > share) {
      plan_.bytes_without_room += tablets_[index].bytes;
      return;
    }
    cut(index, *where);
    move(index, *roomiest);
    index = tablets_.size() - 1;
  }
}

Plan Planner::drain(ServerId from) {
  std::vector<size_t> order;
  for (size_t i = 0; i < tablets_.size(); ++i) {
    if (tablets_[i].owner == from && tablets_[i].may_move) order.push_back(i);
  }
  std::ranges::sort(order, [this](size_t a, size_t b) {
    return tablets_[a].bytes > tablets_[b].bytes || (tablets_[a].bytes == tablets_[b].bytes && a < b);
  });
  for (const size_t i : order) drainTablet(i);
  if (plan_.bytes_without_room != 0) plan_.steps.clear();
  return take();
}

Plan Planner::take() {
  for (const auto& [id, server] : servers_) plan_.levels.push_back({id, server.value_before, server.value});
  return std::move(plan_);
}

}  // namespace

Plan level(const std::vector<PlanServer>& servers, const std::vector<PlanTablet>& tablets, Measure measure,
           double seconds) {
  return Planner(servers, tablets, measure, seconds).level();
}

Plan drain(const std::vector<PlanServer>& servers, const std::vector<PlanTablet>& tablets, ServerId server) {
  return Planner(servers, tablets, Measure::Bytes, 0).drain(server);
}

}  // namespace ramcore::rcmigrate
